// The command `spectrum`: what tensors are made of, and what each codec would take for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

struct SpectrumOptions {
  std::string path;
  std::vector<std::string> patterns;  // names or shell patterns; none: all tensors
  std::string picture;                // an SVG file to write; empty: none
  bool force = false;                 // replace it
  std::uint64_t max_side = 1024;      // of matrices whose singular values are computed
  bool fast = false;                  // do not try the codecs
  ReadingOptions reading;
};
int run_spectrum(const SpectrumOptions& options, Console& console);

}  // namespace cfck::tools
