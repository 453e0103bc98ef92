// Checkpoints as they are written and read: values, and the tensors that they refer to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cfck/checkpoint.hpp"
#include "libtorch/load.hpp"
#include "libtorch/tensors.hpp"

namespace cfck::libtorch {

// Collects the values of a checkpoint, and the tensors that it refers to.
class TreeWriter {
 public:
  CheckpointValue tensor(std::vector<std::string> steps, const at::Tensor& tensor,
                         bool is_parameter);
  CheckpointValue add(CheckpointContainer container);
  Checkpoint take(CheckpointValue root);

  std::vector<NamedTensor> tensors;

 private:
  Checkpoint checkpoint_;
  CheckpointNames names_;
};

// A checkpoint that is read: values are checked first, tensors decoded together, and results put
// in place last.
struct TreeReader {
  const Checkpoint& checkpoint;
  const TensorArchive& archive;
  Matching& matching;
  std::vector<std::function<void()>> commits;

  // Returns the container of `value`, or nullptr.
  const CheckpointContainer* container(const CheckpointValue* value) const;
  // Returns the tensor of the archive that `value` refers to, or nullptr.
  const ArchiveTensor* source(const CheckpointValue* value) const;
  void misfit(const std::string& where, const std::string& what);
};

}  // namespace cfck::libtorch
