#include "embeddings/quantise.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/bytes.hpp"
#include "embeddings/dequantise.hpp"

namespace cfck::embeddings {
namespace {

// Adding and subtracting it rounds a binary64 below 2^51 to the nearest integer, to even.
constexpr double kRounder = 0x1.8p52;

// Quantises a row; returns whether all its values are kept within the error. NaN and infinities are
// not: comparisons with them are false. Both sides of the last one are rounded, by less than what
// `error` is below the caller's.
template <class Value>
bool quantise_row(const std::byte* values, std::uint32_t n, double step, double error,
                  float* codes) {
  bool is_kept = true;
  const double inverse = 1 / step;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double value =
        Value::to_double(load<typename Value::Word>(values + i * sizeof(typename Value::Word)));
    const double code = (value * inverse + kRounder) - kRounder;
    codes[i] = static_cast<float>(code);
    const double decoded = Value::to_double(value_of_code<Value>(codes[i], step));
    is_kept &= std::abs(code) <= kMaxCode;
    is_kept &= std::abs(decoded - value) <= error;
  }
  return is_kept;
}

// The largest finite magnitude.
template <class Value>
double largest_of_row(const std::byte* values, std::uint32_t n) {
  using Word = typename Value::Word;
  Word largest = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const Word magnitude = codec::magnitude_of<Value>(load<Word>(values + i * sizeof(Word)));
    largest = std::max(largest, magnitude < Value::kInfinity ? magnitude : Word{0});
  }
  return Value::to_double(largest);
}

// By how much rounding to the dtype changes a normal value, as a fraction of it.
template <class Value>
constexpr double kRounding = std::is_same_v<Value, codec::ValueF32>   ? 0x1p-24
                             : std::is_same_v<Value, codec::ValueF16> ? 0x1p-11
                                                                      : 0x1p-8;

}  // namespace

void quantise_rows(DType dtype, const std::byte* rows, const std::vector<std::uint32_t>& chosen,
                   std::uint32_t row_elems, double max_abs_error, QuantisedRows& out) {
  out.codes.resize(chosen.size() * row_elems);
  out.exact.resize(chosen.size());
  const double error = max_abs_error * (1 - 0x1p-50);
  with_value_type(dtype, [&](auto value) {
    using Value = decltype(value);
    const std::size_t row_bytes = row_elems * sizeof(typename Value::Word);
    double largest = 0;
    for (const std::uint32_t row : chosen) {
      largest = std::max(largest, largest_of_row<Value>(rows + row * row_bytes, row_elems));
    }
    // Decoded values are rounded to the dtype, which takes its part of the error.
    out.step = 2 * std::max(error - largest * kRounding<Value>, error / 8) * (1 - 0x1p-16);
    if (!(out.step > 0 && std::isfinite(1 / out.step))) {
      out.exact.assign(chosen.size(), 1);
      return;
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      out.exact[i] = !quantise_row<Value>(rows + chosen[i] * row_bytes, row_elems, out.step, error,
                                          out.codes.data() + i * row_elems);
    }
  });
}

}  // namespace cfck::embeddings
