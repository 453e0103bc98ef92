// Weights in the folder of a model that a library loads on its own, and in the formats that it
// knows alone.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace cfck::model {

// Returns the safetensors files among `files`, relative paths, that hold the weights of modules of
// sentence-transformers, such as "2_Dense/model.safetensors": modules.json of the folder names
// these modules. Those whose weights transformers loads are not among them. Empty where
// modules.json is missing or says nothing of the kind.
std::set<std::string> module_files(const std::string& folder,
                                   const std::vector<std::string>& files);

}  // namespace cfck::model
