// Whether a file is a patch of a model.
#pragma once

#include <string>
#include <vector>

#include "cfck/status.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/listing.hpp"

namespace cfck::tools {

struct PatchCheck {
  BaseTotals totals;
  std::vector<std::string> missing;  // tensors of the model that the patch does not have
};

// Compares the digests of the model, which `reading` has opened, with those that the patch was made
// for. Errors: kMissingBase for a model that it was not made for, with the name of a tensor;
// kExists for one that has the new values already; kInvalidArgument for files that are no patches:
// those of other formats, and those that are stored against nothing and have other tensors than the
// model; those of reading both.
Result<PatchCheck> check_patch(const ReadingOptions& reading, const std::string& patch);

}  // namespace cfck::tools
