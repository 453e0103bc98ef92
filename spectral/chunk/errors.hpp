// Errors of decoded values (spec/format.md, section 5.4).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cfck/tensor.hpp"
#include "codec/error_totals.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Measures the errors of finite values. n_exact is 0.
ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded);

// Measures errors, and finds the values to keep exactly: NaN, infinities, and those that are off by
// more than the bound, without rounding, or decoded to no finite number.
ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded,
                           std::optional<double> max_abs_error,
                           std::vector<std::uint32_t>& to_correct);

}  // namespace cfck::spectral
