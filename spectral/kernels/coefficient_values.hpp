// Passes over values and coefficients, written so that compilers vectorise.
#pragma once

#include "spectral/kernels/index_planes.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/value_steps.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

template <class Value>
inline void load_doubles(const std::byte* values, std::size_t n, double* to) {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = load_double<Value>(values + i * sizeof(typename Value::Word));
  }
}

inline void divide_coefficients(const double* coefficients, const double* steps, double step,
                                std::size_t n, float* in_steps) {
  if (steps == nullptr) {
    for (std::size_t i = 0; i < n; ++i) {
      in_steps[i] = clamped_steps(coefficients[i] / step);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      in_steps[i] = clamped_steps(coefficients[i] / steps[i]);
    }
  }
}

inline GroupCode assign_bin(const float* in_steps, unsigned n, unsigned n_states) {
  // Levels of one quantiser are two steps apart, if there are two quantisers.
  const float codes_of_step = n_states == 1 ? 16.0f : 8.0f;
  std::uint32_t low = 0;  // sums of indices in sixteenths, by halves of their bits
  std::uint32_t high = 0;
  std::uint32_t most = 0;  // the bits of floats that are not negative are ordered as they are
  for (unsigned i = 0; i < n; ++i) {
    const std::uint32_t bits = same_bits<std::uint32_t>(in_steps[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
    const float scaled = same_bits<float>(bits) * codes_of_step;
    const float clamped = scaled < 0x1.fffffep30f ? scaled : 0x1.fffffep30f;
    const auto rounded = static_cast<std::uint32_t>(static_cast<std::int32_t>(clamped + 0.5f));
    low += rounded & 0xffff;
    high += rounded >> 16;
  }
  if (same_bits<float>(most) <= (n_states == 1 ? 0.5f : 1.0f)) {
    return {0, 0, GroupKind::kAllZero};
  }
  const std::uint64_t sum = (std::uint64_t{high} << 16) + low;
  const unsigned scale_bin = bin_of_mean(sum, 16 * std::uint64_t{n});
  return {static_cast<std::uint16_t>(scale_bin < kMaxSpectralBin ? scale_bin : kMaxSpectralBin), 0,
          GroupKind::kValues};
}

inline void assign_bins(const float* in_steps, std::size_t n_values, unsigned n_states,
                        GroupCode* groups) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const unsigned n = group_values(n_values - first);
    groups[first / kGroupSize] = n == kGroupSize
                                     ? assign_bin(in_steps + first, kGroupSize, n_states)
                                     : assign_bin(in_steps + first, n, n_states);
  }
}

inline void round_steps(const float* in_steps, std::size_t n, float factor, std::int32_t* indices) {
  for (std::size_t i = 0; i < n; ++i) {
    indices[i] = rounded_index(in_steps[i], factor);
  }
}

inline void write_code_planes(const TrellisSearch& search, std::byte* path, std::byte* raw) {
  const std::int32_t* indices = search.indices;
  for (std::size_t first = 0; first < search.n_values; first += kGroupSize) {
    const GroupCode group = search.groups[first / kGroupSize];
    if (group.kind == GroupKind::kAllZero) {
      continue;
    }
    const unsigned low_bits = kSymbolCodes.of[group.scale_bin].low_bits;
    const unsigned n = group_values(search.n_values - first);
    if (low_bits != 0) {
      std::uint32_t lowest[kGroupSize] = {};
      std::uint32_t low[kGroupSize] = {};
      const std::uint32_t mask = (std::uint32_t{1} << (low_bits - 1)) - 1;
      for (unsigned i = 0; i < n; ++i) {
        lowest[i] = static_cast<std::uint32_t>(indices[i]) & 1;
        low[i] = static_cast<std::uint32_t>(indices[i]) >> 1 & mask;
      }
      path = write_planes(lowest, 1, n, path);
      raw = write_planes(low, low_bits - 1, n, raw);
    }
    indices += n;
  }
}

inline constexpr unsigned kErrorSums = 32;

// Adds the errors of 32 values, or of the last ones.
template <class Value>
inline std::size_t compare_some(const std::byte* values, const std::byte* decoded, unsigned n,
                                double bound, double* sums, double* most, std::uint64_t& n_finite) {
  using Word = typename Value::Word;
  Word from[kErrorSums];
  Word to[kErrorSums];
  Word infinite = 0;  // of the values
  Word lost = 0;      // of these, or of the decoded values
  for (unsigned i = 0; i < n; ++i) {
    Word x, y;
    __builtin_memcpy(&x, values + i * sizeof(Word), sizeof(Word));
    __builtin_memcpy(&y, decoded + i * sizeof(Word), sizeof(Word));
    const Word x_mask = finite_mask<Value>(x);
    const Word y_mask = x_mask & finite_mask<Value>(y);
    from[i] = x & x_mask;
    to[i] = y & y_mask;
    infinite = static_cast<Word>(infinite + (~x_mask & 1));
    lost = static_cast<Word>(lost + (~y_mask & 1));
  }
  std::uint64_t n_off = 0;
  for (unsigned i = 0; i < n; ++i) {
    const double error = __builtin_fabs(Value::to_double(from[i]) - Value::to_double(to[i]));
    most[i] = error > most[i] ? error : most[i];
    sums[i] += error * error;
    n_off += error < bound ? 0 : 1;
  }
  n_finite += n - infinite;
  return lost + n_off;
}

template <class Value>
inline std::size_t compare_values(const std::byte* values, const std::byte* decoded, std::size_t n,
                                  double bound, ErrorTotals& totals) {
  constexpr std::size_t kBytes = sizeof(typename Value::Word);
  double sums[kErrorSums] = {};
  double most[kErrorSums] = {};
  std::size_t n_suspect = 0;
  std::size_t i = 0;
  for (; i + kErrorSums <= n; i += kErrorSums) {
    n_suspect += compare_some<Value>(values + i * kBytes, decoded + i * kBytes, kErrorSums, bound,
                                     sums, most, totals.n_finite);
  }
  n_suspect +=
      compare_some<Value>(values + i * kBytes, decoded + i * kBytes, static_cast<unsigned>(n - i),
                          bound, sums, most, totals.n_finite);
  for (unsigned half = kErrorSums / 2; half > 0; half /= 2) {
    for (unsigned j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
      most[j] = most[j + half] > most[j] ? most[j + half] : most[j];
    }
  }
  totals.sum_of_squares = sums[0];
  totals.max_error = most[0];
  return n_suspect;
}

inline void clamp_sums(std::int32_t base, const std::int32_t* offsets, std::size_t n,
                       std::int32_t most, std::uint8_t* bins) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t sum = base + offsets[i];
    const std::int32_t low = sum < 1 ? 1 : sum;
    bins[i] = static_cast<std::uint8_t>(low > most ? most : low);
  }
}

template <class Value, class T>
inline void store_values(const T* values, std::size_t n, std::byte* to) {
  for (std::size_t i = 0; i < n; ++i) {
    store_value<Value>(values[i], to + i * sizeof(typename Value::Word));
  }
}

template <class T>
inline void clear_nans(T* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = without_nan(values[i]);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
