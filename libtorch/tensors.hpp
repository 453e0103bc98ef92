// Tensors of libtorch as cfck sees them, and the reverse.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/record.hpp"

namespace cfck::libtorch {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = true;
};

// Parameters and buffers in the order of state_dict() in Python: those of a module, then those of
// its children. Undefined ones, as of a layer without bias, are left out.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

// Whether a tensor has values in memory that strides describe. Errors: kInvalidArgument for an
// undefined one, kUnsupported.
Result<void> check_plain(const at::Tensor& tensor);

// Error: kUnsupported.
Result<DType> dtype_of(at::ScalarType type);
Result<at::ScalarType> scalar_type_of(DType dtype);
// The shape of the tensor of libtorch: of F4, it counts pairs of elements. Error: kUnsupported.
Result<std::vector<std::int64_t>> sizes_of(DType dtype, const Shape& shape);

// Tensors to write, with what keeps their memory: those of other devices are copied, each storage
// once, so that tensors that share memory still do.
struct Prepared {
  std::vector<StridedTensor> tensors;
  std::vector<at::Tensor> owners;
};
// Errors: kInvalidArgument, kUnsupported, in the record.
Result<Prepared> prepare(const std::vector<NamedTensor>& tensors);

// A tensor of an archive, and where its values go.
struct Target {
  const ArchiveTensor* source = nullptr;
  at::Tensor tensor;
};
// Decodes straight into tensors that are contiguous, on the CPU and of the same dtype; the others
// are decoded one by one and copied. Requires: shapes fit.
Result<void> read_into(const TensorArchive& archive, const std::vector<Target>& targets);

// Returns an uninitialised tensor on the CPU. Errors: those of the limits; kUnsupported.
Result<at::Tensor> tensor_for(const TensorArchive& archive, const ArchiveTensor& source);

// True if a tensor of these sizes can take the values.
bool has_shape(const at::Tensor& tensor, const ArchiveTensor& source);

}  // namespace cfck::libtorch
