// The report as one HTML page, which needs nothing else: no scripts, fonts, pictures or links.
#pragma once

#include "tools/report/contents/report_data.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {

void write_html(const ReportData& data, Page& page);

// Sections that have a file of their own.
void write_highlights(const ReportData& data, Page& page);
void write_layers(const ReportData& data, Page& page);

// The type of a tensor as it is shown: "F32 384 × 1536".
std::string shown_type(const StoredTensor& tensor);
// A name that comes from a file: its direction of writing ends with it.
std::string shown_name(std::string_view name);
// Where pictures of a tensor are: "#r12".
std::string record_link(const ReportData& data, const RecordReport& record);

}  // namespace cfck::tools::report
