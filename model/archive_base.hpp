// A file or folder of any format as the base of others.
#pragma once

#include <memory>
#include <string>

#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

// Opens what files are stored against, or decoded with. The base has a name, which files that are
// stored against it remember, where it is a single .cfck file: only such files are found again.
// Threads of `options` are not used, since values are read on the threads that ask for them.
// Errors: those of TensorArchive::open().
Result<std::shared_ptr<const Base>> open_base(const std::string& path, ArchiveOptions options = {});

// Error: kLimitExceeded for a base that is stored against so many others that readers would refuse
// a file that is stored against it: those with these limits.
Result<void> check_can_be_base(const Base& base, const Limits& limits = {});

}  // namespace cfck::model
