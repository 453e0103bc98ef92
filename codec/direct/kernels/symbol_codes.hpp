// Splits indices into symbols, low bits and escapes, and merges them, where every index has a
// symbol (codec/direct/spec.md, section 6, with `rans`).
#pragma once

#include "codec/direct/kernels/kernels.hpp"
#include "codec/direct/kernels/merge_indices.hpp"
#include "codec/direct/kernels/quantise.hpp"
#include "codec/direct/kernels/split_indices.hpp"
#include "codec/entropy/rans/kernels/symbol_order.hpp"
#include "codec/indices/escape_bits.hpp"
#include "codec/indices/index_lanes.hpp"
#include "codec/indices/low_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Splits a group index by index: the reference that the lanes must equal.
inline EscapeBits split_group_symbols(const std::int32_t* indices, const SymbolCode& code,
                                      unsigned n, std::uint8_t* symbols, std::byte*& raw) {
  const std::uint32_t mask = (std::uint32_t{1} << code.low_bits) - 1;
  std::uint32_t low[kGroupSize];
  EscapeBits escaped;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::int32_t high = indices[i] >> code.low_bits;
    const bool escapes =
        static_cast<std::uint32_t>(high) + code.reach > 2u * code.reach || indices[i] == kExact;
    symbols[i] = static_cast<std::uint8_t>(escapes ? std::int32_t{kSymbolEscape}
                                                   : high + std::int32_t{kSymbolOfZero});
    low[i] = escapes ? 0u : static_cast<std::uint32_t>(indices[i]) & mask;
    escaped.words[i / 64] |= std::uint64_t{escapes} << (i % 64);
  }
  raw = write_low_bits(low, code.low_bits, n, raw);
  return escaped;
}

// Merges all indices except those that escape. False for one that does not fit 32 bits, or is
// kExact or kMasked.
inline bool merge_group_symbols(const std::uint8_t* symbols, const SymbolCode& code, unsigned n,
                                const std::byte*& raw, std::int32_t* indices, EscapeBits& escaped) {
  std::uint32_t low[kGroupSize];
  raw = read_low_bits(raw, code.low_bits, n, low);
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::uint32_t high = static_cast<std::uint32_t>(symbols[i]) - kSymbolOfZero;
    indices[i] = static_cast<std::int32_t>(high << code.low_bits | low[i]);
    escaped.words[i / 64] |= std::uint64_t{symbols[i] == kSymbolEscape} << (i % 64);
  }
  bool fits = true;
  for (unsigned i = 0; code.low_bits > kMaxSafeLowBits && i < n; ++i) {
    fits = fits && (symbols[i] == kSymbolEscape ||
                    (indices[i] > kMasked &&
                     indices[i] >> code.low_bits == symbols[i] - std::int32_t{kSymbolOfZero}));
  }
  return fits;
}

#if defined(CFCK_HAS_INDEX_LANES)

// Splits a group with vectors. Requires: low bits are at most kMaxSafeLowBits.
inline EscapeBits split_group_symbols_lanes(const std::int32_t* indices, const SymbolCode& code,
                                            unsigned n, std::uint8_t* symbols, std::byte*& raw) {
  EscapeBits escaped;
  const ByteLanes limit = ByteLanes::all(2u * code.reach);
  std::uint8_t moved[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    const ByteLanes high =
        ByteLanes::high_of(indices + i, code.low_bits) + ByteLanes::all(code.reach);
    // One more than the symbol, 0 for an escape; subtracting one leaves five bits.
    const ByteLanes above =
        (high + ByteLanes::all(kSymbolOfZero + 1u - code.reach)).where_at_most(high, limit);
    ((above + ByteLanes::all(255)) & ByteLanes::all(31)).store(symbols + i);
    escaped.words[i / 64] |= above.zero_bits() << (i % 64);
    high.store(moved + i);
  }
  write_kept_low_bits(indices, moved, limit, code.low_bits, n, raw);
  return escaped;
}

inline void merge_group_symbols_lanes(const std::uint8_t* symbols, const SymbolCode& code,
                                      unsigned n, const std::byte*& raw, std::int32_t* indices,
                                      EscapeBits& escaped) {
  std::uint8_t bytes[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    const ByteLanes lanes = ByteLanes::load(symbols + i);
    escaped.words[i / 64] |= (lanes + ByteLanes::all(256 - kSymbolEscape)).zero_bits() << (i % 64);
    (lanes + ByteLanes::all(256 - kSymbolOfZero)).store(bytes + i);
  }
  indices_of_bytes(bytes, code.low_bits, indices);
  add_low_bits(code.low_bits, n, raw, indices);
}

#endif

inline void split_symbols(const std::int32_t* indices, std::size_t n_values,
                          const GroupCode* groups, DirectSplit& to) {
  std::uint8_t*& symbols = to.streams[0];
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      continue;
    }
    const SymbolCode code = kSymbolCodes.of[groups[first / kGroupSize].scale_bin];
    const unsigned n = group_values(n_values - first);
    const std::int32_t* const group = indices + first;
    std::uint8_t ordered[kGroupSize];
#if defined(CFCK_HAS_INDEX_LANES)
    EscapeBits escaped = code.low_bits <= kMaxSafeLowBits
                             ? split_group_symbols_lanes(group, code, n, ordered, to.raw)
                             : split_group_symbols(group, code, n, ordered, to.raw);
#else
    EscapeBits escaped = split_group_symbols(group, code, n, ordered, to.raw);
#endif
    if (n == kGroupSize) {
      to_symbol_order(ordered, symbols);
    } else {
      __builtin_memcpy(symbols, ordered, n);
    }
    if (escaped.any()) {
      escaped.keep(n);
      escaped.each([&](unsigned i) {
        *to.escapes++ = group[i];
        return true;
      });
    }
    symbols += n;
  }
}

// Takes the symbols of a group from the stream, in the order of its values; those after the last
// are ignored. `ordered` has space for a whole group.
inline const std::uint8_t* take_symbols(unsigned n, DirectMerge& from, std::uint8_t* ordered) {
  const std::uint8_t* const symbols = from.streams[0];
  from.streams[0] += n;
  if (n != kGroupSize) {
    return symbols;
  }
  to_value_order(symbols, ordered);
  return ordered;
}

// Merges a group into `indices`, except the escapes; false for an index that does not fit. Symbols
// are in the order of their values. Takes raw bits.
inline bool merge_one_group(const std::uint8_t* symbols, const SymbolCode& code, unsigned n,
                            DirectMerge& from, std::int32_t* indices, EscapeBits& escaped) {
#if defined(CFCK_HAS_INDEX_LANES)
  if (code.low_bits <= kMaxSafeLowBits) {
    merge_group_symbols_lanes(symbols, code, n, from.raw, indices, escaped);
    escaped.keep(n);
    return true;
  }
#endif
  const bool fits = merge_group_symbols(symbols, code, n, from.raw, indices, escaped);
  escaped.keep(n);
  return fits;
}

inline bool merge_symbols(std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                          DirectMerge& from) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    std::int32_t* const group = indices + first;
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      __builtin_memset(group, 0, kGroupSize * sizeof(std::int32_t));
      continue;
    }
    const SymbolCode code = kSymbolCodes.of[groups[first / kGroupSize].scale_bin];
    const unsigned n = group_values(n_values - first);
    EscapeBits escaped;
    std::uint8_t ordered[kGroupSize];
    const bool fits =
        merge_one_group(take_symbols(n, from, ordered), code, n, from, group, escaped);
    if (!fits || !escaped.each([&](unsigned i) {
          if (from.n_escapes == 0) {
            return false;
          }
          group[i] = *from.escapes++;
          --from.n_escapes;
          return true;
        })) {
      return false;
    }
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
