// Lists and removes folders. The iterators of std::filesystem end the program where memory is
// exhausted: their increment() takes memory, but must not throw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cfck/status.hpp"

namespace cfck::model {

// Returns the names of all entries of the folder, sorted, without "." and "..". Errors: kIo,
// kOutOfMemory.
Result<std::vector<std::string>> names_in(const std::string& folder);

// True for the name of a file in which macOS keeps attributes of another one, on file systems that
// have no place for them: "._model.safetensors" has those of model.safetensors.
bool is_attribute_file(std::string_view name);

// Removes a folder with all its contents; entries that cannot be removed stay. Links are removed,
// not followed.
void remove_folder(const std::string& path) noexcept;

}  // namespace cfck::model
