// Writing of prepared tensors.
#pragma once

#include <string>
#include <vector>

#include "cfck/torch.hpp"
#include "libtorch/tensors.hpp"

namespace cfck::libtorch {

// Writes a file with these tensors, and a skeleton unless it is empty.
Result<WriteSummary> write_file(const std::vector<NamedTensor>& tensors,
                                const std::string& skeleton, const std::string& path,
                                const SaveOptions& options);

}  // namespace cfck::libtorch
