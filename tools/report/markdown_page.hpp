// The report as Markdown with tables, as on GitHub or in a model card.
#pragma once

#include "tools/report/contents/report_data.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {

void write_markdown(const ReportData& data, Page& page);

}  // namespace cfck::tools::report
