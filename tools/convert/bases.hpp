// Files that are stored against others: bases of outputs, and outputs that are bases.
#pragma once

#include <string>
#include <vector>

#include "tools/convert/convert.hpp"
#include "tools/output/listing.hpp"

namespace cfck::tools {

// Opens the base that `options` name, where they do, for what is written. Where that is no .cfck
// file, the base is left to reading. Errors: those of opening
// it, with its path.
Result<void> open_base_of_output(ConvertOptions& options);

// Error: kInvalidArgument for an output that would name itself as its base, and for the base.
Result<void> check_base_of_output(const ConvertOptions& options, const std::string& output);

// Error: kExists for a file that others of its folder are stored against, unless `options` replace
// it nevertheless.
Result<void> check_dependents(const ConvertOptions& options, const std::string& output);

// Counts how the tensors of files are stored that have a base. Errors: those of opening the files.
Result<BaseTotals> count_against_base(const std::vector<std::string>& paths,
                                      const ReadingOptions& reading);

// Returns a sentence about what readers of the output need beside it; empty where they will find
// its base, and where it has none.
std::string advice_for_readers(const ConvertOptions& options, const std::string& output);

}  // namespace cfck::tools
