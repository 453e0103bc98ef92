// The state of optimizers, as state_dict() has it in Python.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>

#include "libtorch/trees.hpp"

namespace cfck::libtorch {

// Error: kUnsupported for optimizers of another kind.
Result<CheckpointValue> write_optimizer(const std::string& name,
                                        const torch::optim::Optimizer& optimizer, TreeWriter& tree);
// Prepares what is to be loaded; what does not fit is a misfit. Errors: kUnsupported as above,
// those of memory.
Result<void> read_optimizer(const std::string& name, const CheckpointValue& value,
                            torch::optim::Optimizer& optimizer, TreeReader& tree);

}  // namespace cfck::libtorch
