// From the values of a pickle to containers and records, as cfck.torch.save_checkpoint makes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cfck/checkpoint.hpp"
#include "interop/pytorch/pickle_values.hpp"

namespace cfck::interop {

struct NamedTensor {
  std::string name;
  std::size_t tensor = 0;  // in Pickle::tensors
};

struct PickleTree {
  Checkpoint checkpoint;
  std::vector<NamedTensor> tensors;
};

// Errors: kUnsupported for values that a checkpoint cannot have, with their path.
Result<PickleTree> tree_of(const Pickle& pickle);

}  // namespace cfck::interop
