// The transforms as spectral/transforms.md describes them, without any thought of speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {

using Shape = std::vector<std::uint64_t>;
using Sides = std::vector<std::uint32_t>;

// A line of values `pitch` apart, cut into blocks.
template <class T>
void plain_line(bool inverse, T* line, std::uint64_t length, std::uint64_t pitch,
                std::uint32_t side) {
  for (std::uint64_t start = 0; start < length; start += side) {
    const auto n = static_cast<std::uint32_t>(length - start < side ? length - start : side);
    const T* entries = dct_matrix<T>(n).by_frequency;
    std::vector<T> outputs(n);
    for (std::uint32_t o = 0; o < n; ++o) {
      for (std::uint32_t j = 0; j < n; ++j) {
        const T factor = inverse ? entries[j * n + o] : entries[o * n + j];
        const T term = line[(start + j) * pitch] * factor;
        outputs[o] = j == 0 ? term : outputs[o] + term;
      }
    }
    for (std::uint32_t o = 0; o < n; ++o) line[(start + o) * pitch] = outputs[o];
  }
}

template <class T>
void plain_dct(bool inverse, std::vector<T>& values, const Shape& shape, const Sides& sides) {
  if (values.empty()) return;
  for (std::size_t step = 0; step < shape.size(); ++step) {
    const std::size_t axis = inverse ? shape.size() - 1 - step : step;
    if (sides[axis] == 1) continue;
    std::uint64_t inner = 1;
    for (std::size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
    for (std::uint64_t start = 0; start < values.size(); start += shape[axis] * inner) {
      for (std::uint64_t i = 0; i < inner; ++i) {
        plain_line(inverse, values.data() + start + i, shape[axis], inner, sides[axis]);
      }
    }
  }
}

}  // namespace cfck::spectral
