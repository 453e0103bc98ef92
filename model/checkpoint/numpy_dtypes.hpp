// The dtypes of numpy scalars in checkpoints.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "cfck/checkpoint.hpp"

namespace cfck::model {

// Returns the bytes of a scalar of this dtype; 0 for an unknown name.
constexpr std::size_t numpy_scalar_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 19> kDTypes = {{
      {"bool", 1},
      {"int8", 1},
      {"int16", 2},
      {"int32", 4},
      {"int64", 8},
      {"uint8", 1},
      {"uint16", 2},
      {"uint32", 4},
      {"uint64", 8},
      {"float16", 2},
      {"float32", 4},
      {"float64", 8},
      {"complex64", 8},
      {"complex128", 16},
      {"bfloat16", 2},
      {"float8_e4m3fn", 1},
      {"float8_e5m2", 1},
      {"float8_e4m3fnuz", 1},
      {"float8_e5m2fnuz", 1},
  }};
  for (const auto& [name, n_bytes] : kDTypes) {
    if (name == dtype) return n_bytes;
  }
  return 0;
}

// True if the scalar has a known dtype, the bytes of one, and is 0 or 1 if it is a bool.
inline bool is_numpy_scalar(const NumpyScalar& scalar) {
  const std::size_t n_bytes = numpy_scalar_bytes(scalar.dtype);
  if (n_bytes == 0 || scalar.bytes.size() != n_bytes) return false;
  return scalar.dtype != "bool" || static_cast<unsigned char>(scalar.bytes[0]) <= 1;
}

}  // namespace cfck::model
