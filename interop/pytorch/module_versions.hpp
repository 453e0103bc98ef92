// The versions that modules of PyTorch give to the layout of their state.
#pragma once

#include <string>
#include <string_view>

#include "cfck/checkpoint.hpp"

namespace cfck::interop {

// The metadata that has them, beside the tensors of a model (docs/formats.md).
inline constexpr std::string_view kModuleVersionsKey = "cfck.module_versions";

// Returns {"features.0":2}, the modules whose version is not 1, where the checkpoint is the state
// dict of a module; empty where there are none.
std::string module_versions(const Checkpoint& checkpoint);

}  // namespace cfck::interop
