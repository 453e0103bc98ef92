// `cfck report`: a page about a file of tensors, for people: sizes, bits, errors, values, bands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

enum class PageFormat { kHtml, kMarkdown };

struct ReportOptions {
  std::string path;
  std::string reference;             // to compare with; empty: nothing
  bool common = false;               // pass over tensors that only one side has
  std::string output;                // "-" is standard output; empty: beside the file
  std::optional<PageFormat> format;  // nullopt: by the suffix of `output`
  std::string title;                 // empty: the name of the file
  std::vector<std::string> figures;  // "NAME=VALUE"
  std::string figures_file;          // a JSON object; empty: none
  std::size_t max_pictures = 400;    // tensors with pictures of their own, the largest first
  bool index_only = false;           // decode nothing
  bool force = false;
  ReadingOptions reading;
};

// Returns kExitDifference where tensors cannot be compared with the reference or exceed their
// bounds; the page is written nevertheless, and says so.
int run_report(const ReportOptions& options, Console& console);

}  // namespace cfck::tools
