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

// Compares the files that model::files_left_out() names of two folders. Returns the names of those
// that differ byte for byte, or that only one of the folders has, in any format. Errors: kIo.
Result<std::vector<std::string>> differing_files_left_out(const std::string& a,
                                                          const std::string& b);

}  // namespace cfck::tools
