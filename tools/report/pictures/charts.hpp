// The pictures of a report, as SVG for a page whose style sheet names their colours. Each is drawn
// for a width in pixels, so that letters keep their size on a phone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/report/contents/report_data.hpp"

namespace cfck::tools::report {

// Rectangles for layers and their tensors, as large as their bytes; colours say bits per weight.
std::string treemap_svg(const ReportData& data, double width, double height);
// Bits per weight over the weights in file order, and below it the errors.
std::string model_svg(const ReportData& data, double width);
// Values before and after. Requires: a scan.
std::string histogram_svg(const ValueScan& scan);
// Bits by band, and below them the values and errors.
std::string bands_svg(const CodingFigures& coding);

// The class of the colour for bits per weight: "b0" to "b7". kBitSteps has the limits between them.
inline constexpr double kBitSteps[] = {1.5, 2.5, 3.5, 4.5, 6, 9, 16};
std::string bits_class(double bits_per_weight);

}  // namespace cfck::tools::report
