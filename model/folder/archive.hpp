// Several files as one archive.
#pragma once

#include <memory>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

// Joins the parts, of each the tensors for which `is_of_model` says so; without it, all. Memory
// that tensors of the model share stays, without a name. Error: kCorrupt for a name that two parts
// have, unless only metadata give it.
Result<std::unique_ptr<TensorArchive>> join_archives(
    std::vector<std::unique_ptr<TensorArchive>> parts,
    std::vector<std::vector<bool>> is_of_model = {});

}  // namespace cfck::model
