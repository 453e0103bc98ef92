// Formats that are recognised but not read here, and what to do about their files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::model {

// Returns kUnsupported, with what the file is and how to convert it; nullopt for an unknown format.
// `head` are the first bytes of the file.
std::optional<Error> foreign_format(std::string_view head, const std::string& path);

// Returns such an error for a file whose name says what it is, while its first bytes do not, or say
// less; nullopt for other names.
std::optional<Error> foreign_by_name(std::string_view head, const std::string& path);

// Returns such an error for a folder with these files, whose paths are relative to it; nullopt for
// a folder of no known kind.
std::optional<Error> foreign_folder(const std::string& folder, std::span<const std::string> files);

// Returns kCorrupt for a file that begins as none of tensors does: with text, such as a web page,
// or with zero bytes alone; nullopt for others. `title` is what its name calls it, "a safetensors
// file", or empty.
std::optional<Error> no_tensors(std::string_view head, std::string_view title);

// Returns kUnsupported, with what the bytes of this name are, which are in memory, and what a
// Python program reads them with; nullopt for an unknown format.
std::optional<Error> foreign_in_python(std::string_view head, std::string_view name);

}  // namespace cfck::model
