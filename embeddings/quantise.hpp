// Rows as integers: each value divided by a step and rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::embeddings {

// Codes of larger magnitude are not used: binary32 has all integers below, and messages keep them
// within 0.4999.
inline constexpr double kMaxCode = 1 << 22;
// Of the messages of codes: rounding gives the codes back.
inline constexpr double kCodeError = 0.4999;

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
