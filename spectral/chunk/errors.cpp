#include "spectral/chunk/errors.hpp"

#include <cmath>
#include <cstring>

#include "codec/common/float_values.hpp"
#include "codec/indices/error_bound.hpp"
#include "spectral/kernels/kernels.hpp"

namespace cfck::spectral {
namespace {

template <class Value>
std::vector<std::uint32_t> places_to_correct(ByteView values, ByteView decoded,
                                             std::optional<double> max_abs_error) {
  using Word = typename Value::Word;
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    Word x, y;
    std::memcpy(&x, values.data() + i * sizeof(Word), sizeof(Word));
    std::memcpy(&y, decoded.data() + i * sizeof(Word), sizeof(Word));
    const bool is_kept =
        magnitude_of<Value>(x) < Value::kInfinity && magnitude_of<Value>(y) < Value::kInfinity &&
        (!max_abs_error || keeps_bound(Value::to_double(x), Value::to_double(y), *max_abs_error));
    if (!is_kept) {
      places.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return places;
}

}  // namespace

ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded) {
  ErrorTotals totals;
  const std::size_t n = values.size() * 8 / bits_per_element(dtype);
  (void)spectral_kernels().compare(dtype, values.data(), decoded.data(), n, INFINITY, totals);
  return totals;
}

ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded,
                           std::optional<double> max_abs_error,
                           std::vector<std::uint32_t>& to_correct) {
  ErrorTotals totals;
  const std::size_t n = values.size() * 8 / bits_per_element(dtype);
  to_correct.clear();
  if (spectral_kernels().compare(dtype, values.data(), decoded.data(), n,
                                 max_abs_error.value_or(INFINITY), totals) == 0) {
    return totals;
  }
  to_correct = dtype == DType::kF64   ? places_to_correct<ValueF64>(values, decoded, max_abs_error)
               : dtype == DType::kF32 ? places_to_correct<ValueF32>(values, decoded, max_abs_error)
               : dtype == DType::kBF16
                   ? places_to_correct<ValueBf16>(values, decoded, max_abs_error)
                   : places_to_correct<ValueF16>(values, decoded, max_abs_error);
  return totals;
}

}  // namespace cfck::spectral
