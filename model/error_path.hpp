// Adds the path of a file to errors, where there are several files.
#pragma once

#include <string>

#include "cfck/status.hpp"

namespace cfck::model {

// Returns the error with the name of its file, unless the message has it already.
Error with_path(Error error, const std::string& path);

}  // namespace cfck::model
