// The models of two folders, paired by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cfck/status.hpp"

namespace cfck::tools {

struct ModelPair {
  std::optional<std::string> a;  // paths; at least one of them is there
  std::optional<std::string> b;
};

// Pairs the models that the paths stand for (model::all_models). Two models are a pair, whatever
// their names. Those of folders with several are paired by their paths in the folders, where files
// of different formats have the same name without their suffixes. Errors: those of all_models().
Result<std::vector<ModelPair>> model_pairs(const std::string& a, const std::string& b);

}  // namespace cfck::tools
