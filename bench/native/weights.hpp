// The tensors of a safetensors file, in memory.
#pragma once

#include <string>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/tensor.hpp"

namespace cfck::bench {

struct Tensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  ByteView values;
};

struct Weights {
  std::vector<std::byte> file;  // the memory of the views
  std::vector<Tensor> tensors;  // in the order of the file

  std::size_t n_bytes() const;
};

Result<Weights> read_weights(const std::string& path);

// The maximum finite value of an F32 tensor minus the minimum, in float64.
double value_range(const Tensor& tensor);

}  // namespace cfck::bench
