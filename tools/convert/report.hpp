// The report of cfck convert.
#pragma once

#include "tools/convert/convert.hpp"

namespace cfck::tools {

// Reports as text or JSON; warns of unused rules, of files without tensors, and of contents that
// the outputs do not have. Errors: those of reading the index of the new files.
Result<void> report_conversion(Console& console, const ConvertOptions& options,
                               const ConvertReport& report, double seconds);

}  // namespace cfck::tools
