// Formats that are recognised but not read here, and what to do about their files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::model {

// Returns kUnsupported, with what the file is and how to convert it; nullopt for an unknown format.
// `head` are the first bytes of the file.
std::optional<Error> foreign_format(std::string_view head, const std::string& path);

// Returns kUnsupported, with what the bytes of this name are, which are in memory, and what a
// Python program reads them with; nullopt for an unknown format.
std::optional<Error> foreign_in_python(std::string_view head, std::string_view name);

}  // namespace cfck::model
