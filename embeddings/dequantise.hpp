// Values that codes stand for (spec/embeddings.md, section 4).
#pragma once

#include <cstring>

#include "codec/common/float_values.hpp"

namespace cfck::embeddings {

// The product is rounded to binary64, then to binary32, then to the 16-bit type.
template <class Value>
inline typename Value::Word value_of_code(float code, double step) noexcept {
  return Value::from_double(double{code} * step);
}

// Calls `function` with the Value of a dtype that rows may have.
template <class Function>
void with_value_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kF16:
      return function(codec::ValueF16());
    case DType::kBF16:
      return function(codec::ValueBf16());
    default:
      return function(codec::ValueF32());
  }
}

}  // namespace cfck::embeddings
