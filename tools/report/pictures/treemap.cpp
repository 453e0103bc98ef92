#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/output/console.hpp"
#include "tools/report/pictures/charts.hpp"
#include "tools/report/pictures/svg.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {
namespace {

// Smaller rectangles, in square pixels, are drawn together.
constexpr double kMinArea = 9;
constexpr double kGap = 1.5;  // between layers
constexpr double kHeading = 18;
constexpr double kBoldWidth = 7.6;
// The end of a word says nothing if it is this short.
constexpr std::size_t kMinCut = 9;

std::string tensor_title(const RecordReport& record) {
  return fmt::format("{}: {}, {:.2f} bits per weight", record.tensor->name,
                     human_bytes(record.tensor->stored_bytes), record.bits_per_weight());
}

class Treemap {
 public:
  Treemap(const ReportData& data, double width, double height)
      : data_(data), whole_{0, 0, width, height} {}

  std::string draw() {
    text_ = svg_begin(whole_.width, whole_.height, "Stored bytes of layers and tensors");
    const double scale = whole_.width * whole_.height / total_bytes();
    std::vector<double> weights;
    std::vector<std::size_t> shown;
    double rest = 0;
    for (std::size_t i = 0; i < data_.layers.size(); ++i) {
      const auto bytes = static_cast<double>(data_.layers[i].stored_bytes);
      if (bytes * scale < 4 * kMinArea) {
        rest += bytes;
        continue;
      }
      weights.push_back(bytes);
      shown.push_back(i);
    }
    if (rest * scale >= kMinArea) weights.push_back(rest);
    const auto boxes = squarified(weights, whole_);
    for (std::size_t i = 0; i < shown.size(); ++i) draw_layer(shown[i], boxes[i]);
    if (boxes.size() > shown.size()) {
      text_ += svg_box(inner(boxes.back(), kGap), "other",
                       fmt::format("{} smaller layers", data_.layers.size() - shown.size()));
    }
    return text_ + std::string(kSvgEnd);
  }

 private:
  double total_bytes() const { return std::max(static_cast<double>(data_.stored_bytes), 1.0); }

  static Box inner(const Box& box, double gap) {
    return {box.x + gap / 2, box.y + gap / 2, std::max(box.width - gap, 0.3),
            std::max(box.height - gap, 0.3)};
  }

  void draw_layer(std::size_t number, const Box& outer) {
    const Layer& layer = data_.layers[number];
    Box box = inner(outer, 2 * kGap);
    text_ += fmt::format(R"(<a href="#l{}">)", number);
    const bool has_heading =
        box.height > 3 * kHeading && box.width > 60 && layer.records.size() > 1;
    if (has_heading) {
      text_ += svg_box(box, "plate");
      const auto most = static_cast<std::size_t>((box.width - 6) / kBoldWidth);
      text_ += svg_text(box.x + 3, box.y + 13, label(layer.name, most), "start", "strong");
      box = {box.x, box.y + kHeading, box.width, box.height - kHeading};
    }
    const double scale = box.width * box.height / static_cast<double>(layer.stored_bytes);
    std::vector<double> weights;
    std::vector<std::size_t> shown;
    double rest = 0;
    for (const std::size_t record : layer.records) {
      const auto bytes = static_cast<double>(data_.records[record].tensor->stored_bytes);
      if (bytes * scale < kMinArea) {
        rest += bytes;
        continue;
      }
      weights.push_back(bytes);
      shown.push_back(record);
    }
    if (rest > 0) weights.push_back(rest);
    const auto boxes = squarified(weights, box);
    for (std::size_t i = 0; i < shown.size(); ++i) {
      draw_tensor(data_.records[shown[i]], layer, boxes[i], has_heading);
    }
    if (boxes.size() > shown.size()) {
      text_ += svg_box(
          inner(boxes.back(), 1), "other",
          fmt::format("{}: {} smaller tensors", layer.name, layer.records.size() - shown.size()));
    }
    text_ += "</a>";
  }

  void draw_tensor(const RecordReport& record, const Layer& layer, const Box& outer,
                   bool has_heading) {
    const Box box = inner(outer, 1);
    text_ += svg_box(box, bits_class(record.bits_per_weight()), tensor_title(record));
    const auto most = static_cast<std::size_t>(std::max(box.width - 8, 0.0) / kLetterWidth);
    if (most < 4 || box.height < kLetterHeight + 6) return;
    std::string_view name = record.tensor->name;
    if (has_heading && name.size() > layer.name.size()) name.remove_prefix(layer.name.size() + 1);
    const std::string shown = label(name, most);
    if (most < kMinCut && shown.starts_with("…")) return;
    text_ += svg_text(box.x + 4, box.y + 14, shown, "start",
                      "on " + bits_class(record.bits_per_weight()));
    if (box.height < 2 * kLetterHeight + 12) return;
    const std::string size = human_bytes(record.tensor->stored_bytes);
    const std::string full = fmt::format("{}, {:.2f} b/w", size, record.bits_per_weight());
    if (full.size() <= most || size.size() <= most) {
      text_ += svg_text(box.x + 4, box.y + 29, full.size() <= most ? full : size, "start",
                        "on soft " + bits_class(record.bits_per_weight()));
    }
  }

  const ReportData& data_;
  const Box whole_;
  std::string text_;
};

}  // namespace

std::string bits_class(double bits_per_weight) {
  const auto at = std::upper_bound(std::begin(kBitSteps), std::end(kBitSteps), bits_per_weight);
  return fmt::format("b{}", at - std::begin(kBitSteps));
}

std::string treemap_svg(const ReportData& data, double width, double height) {
  return Treemap(data, width, height).draw();
}

}  // namespace cfck::tools::report
