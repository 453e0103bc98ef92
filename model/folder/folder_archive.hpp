// Several files as one archive.
#pragma once

#include <memory>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

// Joins the parts. Error: kCorrupt for a name that two parts have, unless only metadata give it.
Result<std::unique_ptr<TensorArchive>> join_archives(
    std::vector<std::unique_ptr<TensorArchive>> parts);

}  // namespace cfck::model
