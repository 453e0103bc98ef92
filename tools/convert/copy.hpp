// Copies the files of a folder that are not converted.
#pragma once

#include <string>

#include "cfck/status.hpp"

namespace cfck::tools {

// The copy appears complete or not at all, with the permissions of the file. Errors: kIo, kExists,
// kCancelled after interrupt_signal().
Result<void> copy_file(const std::string& from, const std::string& to);

}  // namespace cfck::tools
