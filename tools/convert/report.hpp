// The report of cfck convert.
#pragma once

#include "tools/convert/convert.hpp"

namespace cfck::tools {

// Reports an error in the shape of a report, with "status" "failed". Returns the exit code.
int fail_conversion(Console& console, const Error& error, const std::string& input);
// Reports an input that was passed over, since its output is there.
void report_skipped(Console& console, const std::string& input, const std::string& output);

// Reports as text or JSON; warns of unused rules, of files without tensors, and of contents that
// the outputs do not have. Errors: those of reading the index of the new files.
Result<void> report_conversion(Console& console, const ConvertOptions& options,
                               const ConvertReport& report, double seconds);

}  // namespace cfck::tools
