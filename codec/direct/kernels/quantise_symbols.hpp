// Turns values into symbols, low bits and escapes in one pass, where indices are grouped in the
// order of storage.
#pragma once

#include "codec/direct/kernels/assign_bins.hpp"
#include "codec/direct/kernels/quantise.hpp"
#include "codec/direct/kernels/symbol_codes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

template <class Value>
QuantisedTotals quantise_to_symbols(const std::byte* values, std::size_t n_values,
                                    const ValueSteps& steps, std::byte* decoded, GroupCode* groups,
                                    DirectSplit& to) {
  constexpr std::size_t kBytes = sizeof(typename Value::Word);
  // The indices of some groups, which stay in the first cache.
  constexpr std::size_t kBatch = 16 * kGroupSize;
  std::int32_t indices[kBatch];
  Quantiser<Value> quantiser(steps);
  for (std::size_t first = 0; first < n_values; first += kBatch) {
    const std::size_t n = n_values - first < kBatch ? n_values - first : kBatch;
    const std::byte* const from = values + first * kBytes;
    const std::uint64_t n_exact = quantiser.n_exact();
    quantiser.add(from, n, indices, decoded + first * kBytes);
    for (std::size_t i = n; i % kGroupSize != 0; ++i) {
      indices[i] = 0;
    }
    // Prefetches the next values while these are grouped.
    for (std::size_t i = n * kBytes; i < (n_values - first) * kBytes && i < 2 * n * kBytes;
         i += 64) {
      __builtin_prefetch(from + i);
    }
    assign_bins(indices, n, groups + first / kGroupSize);
    split_symbols(indices, n, groups + first / kGroupSize, to);
    for (std::size_t i = 0; quantiser.n_exact() != n_exact && i < n; ++i) {
      if (indices[i] == kExact) {
        __builtin_memcpy(to.exact, from + i * kBytes, kBytes);
        to.exact += kBytes;
      }
    }
  }
  return quantiser.finish();
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
