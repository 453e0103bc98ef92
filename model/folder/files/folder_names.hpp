// Lists and removes folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/folder_listing.hpp"

namespace cfck::model {

using detail::names_in;

// True for the name of a file in which macOS keeps attributes of another one, on file systems that
// have no place for them: "._model.safetensors" has those of model.safetensors.
bool is_attribute_file(std::string_view name);

// Removes a folder with all its contents; entries that cannot be removed stay. Links are removed,
// not followed.
void remove_folder(const std::string& path) noexcept;

}  // namespace cfck::model
