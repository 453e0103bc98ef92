// The report of cfck convert.
#pragma once

#include <string>
#include <vector>

#include "tools/convert/convert.hpp"

namespace cfck::tools {

// Reports an error in the shape of a report, with "status" "failed". Returns the exit code.
int fail_conversion(Console& console, const Error& error, const std::string& input);
// Reports an input that was passed over, since its output is there; `missing` are the files that an
// output folder lacks.
void report_skipped(Console& console, const ConvertOptions& options,
                    const std::vector<std::string>& missing);

// The time of one of many inputs is no line of its own.
enum class ReportedAs { kAlone, kOneOfMany };

// Reports as text or JSON; warns of unused rules, of files without tensors, and of contents that
// the outputs do not have. Errors: those of reading the index of the new files.
Result<void> report_conversion(Console& console, const ConvertOptions& options,
                               const ConvertReport& report, double seconds,
                               ReportedAs how = ReportedAs::kAlone);

}  // namespace cfck::tools
