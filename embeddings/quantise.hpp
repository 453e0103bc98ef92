// Rows as integers: each value divided by a step and rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::embeddings {

// Codes of larger magnitude are not used: binary32 has all integers and halves below.
inline constexpr double kMaxCode = 1 << 22;
// Codes and buckets are sent within this error, and zero as kZero, so that rounding gives them
// back. Codec direct would try a mask for values that are zero.
inline constexpr float kZero = 0x1p-10F;
inline constexpr double kCodeError = 0.498;

// Rows of some batch, by number.
struct QuantisedRows {
  std::vector<float> codes;         // row-major; of exact rows unspecified
  std::vector<std::uint8_t> exact;  // whether a row is to be kept bit for bit
  double step = 0;
};

// Quantises the rows of `rows` whose numbers are in `chosen`, in that order, so that each value of
// those that are not exact is decoded within max_abs_error, which is above 0.
void quantise_rows(DType dtype, const std::byte* rows, const std::vector<std::uint32_t>& chosen,
                   std::uint32_t row_elems, double max_abs_error, QuantisedRows& out);

}  // namespace cfck::embeddings
