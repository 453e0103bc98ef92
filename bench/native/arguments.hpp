// Arguments that the programs have in common: options with a value each, then a file.
#pragma once

#include <string>
#include <string_view>

#include "cfck/options.hpp"

namespace cfck::bench {

struct Arguments {
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;
  double rel_bound = 0;  // of each tensor's range; 0: lossless
  unsigned repetitions = 0;
  std::string path;
};

// Takes an option. False if there is no such option, or it cannot have this value.
bool take_option(std::string_view name, const char* value, Arguments& arguments);

// Reads all arguments; `take` is asked for each option. False if one was not taken, or
// the file is missing.
template <class Take>
bool read_arguments(int argc, char** argv, Arguments& arguments, Take&& take) {
  if (argc < 2 || argc % 2 != 0) {
    return false;
  }
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!take(std::string_view(argv[i]), argv[i + 1])) {
      return false;
    }
  }
  arguments.path = argv[argc - 1];
  return true;
}

}  // namespace cfck::bench
