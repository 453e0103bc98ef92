// cfck convert: a file or a folder, from safetensors to .cfck or back.
#pragma once

#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "tools/convert/convert_file.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

struct ConvertOptions {
  std::string input;
  std::string output;  // empty: the name beside the input
  EncodeOptions encode;
  std::vector<std::string> rules;  // as given; run_convert adds them to `encode`
  std::string rules_file;
  std::vector<std::string> for_cfck;  // options that were given and concern encoding
  bool verify = false;
  bool dry_run = false;
  bool force = false;  // replace what exists
  Limits limits;       // for .cfck files that are read
};

struct ConvertReport {
  std::string input;
  std::string output;
  const model::ArchiveFormat* to = nullptr;
  std::vector<ConvertedFile> files;
  std::vector<std::string> copied;               // of a folder: the rest, relative paths
  std::vector<std::string> copied_from_outside;  // those where links lead out of the folder
};

// Checks that the paths are not the same file, by any name; `output` must not exist unless `force`.
// Errors: kInvalidArgument.
Result<void> check_output(const std::string& input, const std::string& output, bool force);

// Options for encoding make no sense in conversions from .cfck. Error: kInvalidArgument.
Result<void> check_direction(const ConvertOptions& options, const model::ArchiveFormat& to);

Result<ConvertReport> convert_folder(const ConvertOptions& options, bool show_progress);

// Returns the exit code.
int run_convert(const ConvertOptions& options, Console& console);

}  // namespace cfck::tools
