// The tensors against which files of the corpus are stored: always the same, so that digests in
// these files stay right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cfck/base.hpp"

namespace cfck::test {

struct FixedTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::byte> values;
};

inline const std::vector<FixedTensor>& fixed_tensors() {
  static const std::vector<FixedTensor> tensors = [] {
    std::vector<FixedTensor> made = {
        {"bf16", DType::kBF16, {12, 16}, {}}, {"f32", DType::kF32, {8, 10}, {}},
        {"f8", DType::kF8E4M3, {160}, {}},    {"f4", DType::kF4, {20, 16}, {}},
        {"i32", DType::kI32, {60}, {}},       {"u8", DType::kU8, {200}, {}},
    };
    std::uint32_t state = 1;
    for (FixedTensor& tensor : made) {
      tensor.values.resize(n_bytes(tensor.dtype, tensor.shape).value());
      const std::size_t width = bits_per_element(tensor.dtype) / 8;
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        state = state * 1664525 + 1013904223;
        // The highest bytes of wide values are equal, as those of weights are nearly.
        const bool is_top = width > 1 && i % width == width - 1;
        tensor.values[i] = is_top ? std::byte{0x3c} : static_cast<std::byte>(state >> 24);
      }
    }
    return made;
  }();
  return tensors;
}

inline std::shared_ptr<const Base> fixed_base() {
  static const std::shared_ptr<const Base> base = [] {
    std::vector<NamedTensor> named;
    for (const FixedTensor& tensor : fixed_tensors()) {
      named.push_back({tensor.name, {tensor.dtype, tensor.shape, tensor.values}});
    }
    return base_in_memory(named).value();
  }();
  return base;
}

}  // namespace cfck::test
