// What cfck convert tells of what it did.
#pragma once

#include "tools/convert/convert.hpp"

namespace cfck::tools {

// Text or JSON; warns of rules that were of no use, of files without tensors, and of
// what safetensors cannot hold. Errors: what reading the
// index of the new files reports.
Result<void> report_conversion(Console& console, const ConvertOptions& options,
                               const ConvertReport& report, double seconds);

}  // namespace cfck::tools
