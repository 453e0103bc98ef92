#include "codec/direct/prediction.hpp"

#include <algorithm>

#include "codec/direct/class_codes.hpp"

namespace cfck::codec {
namespace {

// The part of a chunk that consists of whole kernels.
struct WholeKernels {
  std::size_t begin = 0;
  std::size_t end = 0;
};

WholeKernels whole_kernels(std::uint32_t taps, std::uint64_t first_value, std::size_t n_values) {
  const auto before = static_cast<std::size_t>((taps - first_value % taps) % taps);
  if (before >= n_values) {
    return {n_values, n_values};
  }
  return {before, before + (n_values - before) / taps * taps};
}

std::int32_t prediction_of(const std::int16_t* coefficients, const std::int64_t* known,
                           std::uint32_t n_known) {
  std::int64_t sum = 128;
  for (std::uint32_t s = 0; s < n_known; ++s) {
    sum += coefficients[s] * known[s];
  }
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(sum >> 8, -std::int64_t{kMaxCode}, kMaxCode));
}

bool has_code(std::int32_t code) { return code != kExact && code != kHidden; }

}  // namespace

void predict_codes(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                   std::uint64_t first_value, std::span<std::int32_t> codes) {
  const auto [begin, end] = whole_kernels(geometry.taps, first_value, codes.size());
  std::int64_t known[kMaxTaps];
  for (std::size_t at = begin; at < end; at += geometry.taps) {
    std::int32_t* const kernel = codes.data() + at;
    const std::int16_t* row = coefficients.data();
    for (std::uint32_t t = 0; t < geometry.taps; row += t, ++t) {
      const bool coded = has_code(kernel[t]);
      known[t] = coded ? kernel[t] : 0;
      if (coded) {
        kernel[t] -= prediction_of(row, known, t);
      }
    }
  }
}

bool restore_codes(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                   std::uint64_t first_value, std::span<std::int32_t> codes) {
  const auto [begin, end] = whole_kernels(geometry.taps, first_value, codes.size());
  std::int64_t known[kMaxTaps];
  bool fits = true;
  for (std::size_t at = begin; at < end; at += geometry.taps) {
    std::int32_t* const kernel = codes.data() + at;
    const std::int16_t* row = coefficients.data();
    for (std::uint32_t t = 0; t < geometry.taps; row += t, ++t) {
      known[t] = 0;
      if (has_code(kernel[t])) {
        known[t] = std::int64_t{kernel[t]} + prediction_of(row, known, t);
        fits = fits && known[t] >= -kMaxCode && known[t] <= kMaxCode;
        kernel[t] = static_cast<std::int32_t>(
            std::clamp<std::int64_t>(known[t], -std::int64_t{kMaxCode}, kMaxCode));
        known[t] = kernel[t];
      }
    }
  }
  return fits;
}

}  // namespace cfck::codec
