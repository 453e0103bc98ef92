// Parts of SVG pictures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cfck::tools::report {

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Letters of the charts are this large, and about this wide, in pixels.
inline constexpr double kLetterHeight = 12;
inline constexpr double kLetterWidth = 6.7;

// `label` says what the picture shows to who cannot see it.
std::string svg_begin(double width, double height, std::string_view label);
inline constexpr std::string_view kSvgEnd = "</svg>";

// `text` is escaped here. `anchor`: "start", "middle", "end".
std::string svg_text(double x, double y, std::string_view text, std::string_view anchor,
                     std::string_view classes = {});
std::string svg_box(const Box& box, std::string_view classes, std::string_view title = {});
std::string svg_line(double x1, double y1, double x2, double y2, std::string_view classes);
// A coordinate, with one digit after the point at most.
std::string place(double coordinate);

// Round numbers from 0 or below `low` up to `high`, about `count` of them.
std::vector<double> ticks(double low, double high, std::size_t count);

// Divides a box into boxes of these areas, as square as possible, in the order of the weights.
// Requires: positive weights, the largest first.
std::vector<Box> squarified(const std::vector<double>& weights, const Box& whole);

}  // namespace cfck::tools::report
