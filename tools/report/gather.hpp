// Reads what a report says.
#pragma once

#include "tools/inspect/tensor_set.hpp"
#include "tools/report/contents/report_data.hpp"
#include "tools/report/report.hpp"

namespace cfck::tools::report {

// Returns all but title, paths and figures. `reference` may be nullptr; both sets must outlive the
// result. Memory grows with the number of tensors, not with their size. A tensor that cannot be
// read is in the result, with its failure. Errors: those of the reference; "cancelled".
Result<ReportData> gather(TensorSet& set, const TensorSet* reference, const ReportOptions& options,
                          bool shows_progress);

}  // namespace cfck::tools::report
