#include "tools/report/pictures/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {
namespace {

// The worst ratio of sides, if these weights share a row along a side of this length.
double worst_ratio(double sum, double least, double most, double side) {
  const double area = sum * sum;
  return std::max(side * side * most / area, area / (side * side * least));
}

}  // namespace

std::string place(double coordinate) {
  std::string text = fmt::format("{:.1f}", coordinate);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string svg_begin(double width, double height, std::string_view label) {
  return fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", place(width),
                     place(height), html(label));
}

std::string svg_text(double x, double y, std::string_view text, std::string_view anchor,
                     std::string_view classes) {
  return fmt::format(R"(<text x="{}" y="{}"{}{}>{}</text>)", place(x), place(y),
                     anchor == "start" ? "" : fmt::format(R"( text-anchor="{}")", anchor),
                     classes.empty() ? "" : fmt::format(R"( class="{}")", classes), html(text));
}

std::string svg_box(const Box& box, std::string_view classes, std::string_view title) {
  const std::string rest =
      title.empty() ? "/>" : fmt::format("><title>{}</title></rect>", html(title));
  return fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" class="{}"{})", place(box.x),
                     place(box.y), place(box.width), place(box.height), classes, rest);
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view classes) {
  return fmt::format(R"(<path d="M{} {}L{} {}" class="{}"/>)", place(x1), place(y1), place(x2),
                     place(y2), classes);
}

std::vector<double> ticks(double low, double high, std::size_t count) {
  const double rough = std::max((high - low) / static_cast<double>(count), 1e-9);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> all;
  for (double at = std::floor(low / step); at * step <= high + step * 1e-6; ++at) {
    all.push_back(at * step);
  }
  return all;
}

std::vector<Box> squarified(const std::vector<double>& weights, const Box& whole) {
  std::vector<Box> boxes;
  boxes.reserve(weights.size());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double scale = sum > 0 ? whole.width * whole.height / sum : 0;
  Box rest = whole;
  for (std::size_t first = 0; first < weights.size();) {
    const double side = std::max(std::min(rest.width, rest.height), 1e-9);
    double row = weights[first] * scale;
    double ratio = worst_ratio(row, row, row, side);
    std::size_t last = first + 1;
    for (; last < weights.size(); ++last) {
      const double next = row + weights[last] * scale;
      const double next_ratio =
          worst_ratio(next, weights[last] * scale, weights[first] * scale, side);
      if (next_ratio > ratio) break;
      row = next;
      ratio = next_ratio;
    }
    const bool is_column = rest.width >= rest.height;
    const double thickness = row / side;
    double at = is_column ? rest.y : rest.x;
    for (; first < last; ++first) {
      const double length = weights[first] * scale / std::max(thickness, 1e-9);
      boxes.push_back(is_column ? Box{rest.x, at, thickness, length}
                                : Box{at, rest.y, length, thickness});
      at += length;
    }
    (is_column ? rest.x : rest.y) += thickness;
    (is_column ? rest.width : rest.height) -= thickness;
  }
  return boxes;
}

}  // namespace cfck::tools::report
