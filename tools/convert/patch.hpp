// cfck patch and cfck apply: conversions to and from files that are stored against others.
#pragma once

#include <string>

#include "tools/convert/convert.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

// A patch takes from `convert` the output, how to encode, and what may be replaced.
struct PatchOptions {
  std::string before;  // what the receiver has
  std::string after;
  ConvertOptions convert;
};
// Returns the exit code.
int run_patch(const PatchOptions& options, Console& console);

struct ApplyOptions {
  std::string before;  // what the patch was made for
  std::string patch;
  bool in_place = false;  // replace `before`; else convert.output is the output
  ConvertOptions convert;
};
// Returns the exit code.
int run_apply(const ApplyOptions& options, Console& console);

}  // namespace cfck::tools
