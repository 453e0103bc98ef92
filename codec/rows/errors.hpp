// Errors of a chunk whose rows another codec decodes (codec/rows/spec.md, section 3).
#pragma once

#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"
#include "codec/error_totals.hpp"

namespace cfck::codec {

// Compares the finite values of F64, F32, BF16 or F16 with what they are decoded to. n_exact is 0.
ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded);

}  // namespace cfck::codec
