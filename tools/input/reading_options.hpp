// How the programs read files: limits, and what files that are stored against others are decoded
// with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cfck/base.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"

namespace cfck::tools {

struct ReadingOptions {
  Limits limits = {};
  std::string base = {};                    // a file or folder; empty: the one that a file names
  std::vector<std::string> base_dirs = {};  // where bases are looked for, after the file's folder

  std::shared_ptr<const Base> opened = {};  // `base`, where it is open already

  // Opens a file or folder as a base, with these limits and folders. Errors: those of opening it,
  // with its path.
  Result<std::shared_ptr<const Base>> open_base(const std::string& path) const;
  // Returns the options for the library; opens the base. Errors: those of opening it, with its
  // path.
  Result<DecodeOptions> decode() const;
};

}  // namespace cfck::tools
