#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/contents/layers.hpp"
#include "tools/report/pictures/charts.hpp"
#include "tools/report/pictures/svg.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {
namespace {

constexpr double kChartLeft = 38;
constexpr double kRight = 6;
constexpr double kTop = 16;
constexpr double kBitsHeight = 190;
constexpr double kErrorHeight = 110;
constexpr double kBetween = 34;
constexpr double kBottom = 22;
// Narrower columns are drawn together, with their averages.
constexpr double kMinColumn = 1;
constexpr double kMinDecibels = -100;
// Columns of so small a part of the weights may be cut off, so that the others can be told apart.
constexpr double kCutShare = 0.04;
constexpr double kCutFactor = 1.8;  // of the highest column that is not

// Consecutive tensors.
struct Column {
  double x = 0;
  double width = 0;
  double n_elems = 0;
  double bits = 0;
  double n_lossy = 0;         // elements
  double squared_errors = 0;  // each tensor's relative to its values, times its elements
  std::string title;

  double bits_each() const { return n_elems == 0 ? 0 : bits / n_elems; }
  double nmse() const { return 10 * std::log10(squared_errors / n_lossy); }
};

struct Run {  // of tensors of one layer
  std::string_view layer;
  double x = 0;
  double width = 0;
};

class ModelChart {
 public:
  ModelChart(const ReportData& data, double width)
      : data_(data), width_(width), scale_(inner_width() / std::max(drawn_elems(), 1.0)) {
    collect();
  }

  std::string draw() {
    const bool any_lossy = std::any_of(columns_.begin(), columns_.end(), has_error);
    const double bits_bottom = kTop + kBitsHeight;
    const double bottom = any_lossy ? bits_bottom + kBetween + kErrorHeight : bits_bottom;
    text_ = svg_begin(width_, bottom + kBottom, "Bits per weight and errors along the model");
    draw_runs(bits_bottom, bottom);
    draw_bits(bits_bottom);
    if (any_lossy) draw_errors(bits_bottom + kBetween, bottom);
    return text_ + std::string(kSvgEnd);
  }

 private:
  static bool has_error(const Column& column) {
    return column.n_lossy > 0 && column.squared_errors > 0;
  }
  // Tensors that store nothing have no place of their own.
  static bool is_drawn(const RecordReport& record) {
    return record.tensor->sharing == Sharing::kNone && record.tensor->n_elems > 0;
  }
  double inner_width() const { return width_ - kChartLeft - kRight; }

  double drawn_elems() const {
    double sum = 0;
    for (const RecordReport& record : data_.records) {
      if (is_drawn(record)) sum += static_cast<double>(record.tensor->n_elems);
    }
    return sum;
  }

  void collect() {
    double x = kChartLeft;
    for (const RecordReport& record : data_.records) {
      if (!is_drawn(record)) continue;
      const auto n_elems = static_cast<double>(record.tensor->n_elems);
      const double width = n_elems * scale_;
      const std::string_view layer = layer_of(record.tensor->name);
      if (runs_.empty() || runs_.back().layer != layer) runs_.push_back({layer, x, 0});
      runs_.back().width += width;
      const bool joins = !columns_.empty() && (columns_.back().width < kMinColumn);
      if (!joins) columns_.push_back({x, 0, 0, 0, 0, 0, {}});
      add(columns_.back(), record, n_elems, width);
      x += width;
    }
  }

  static void add(Column& column, const RecordReport& record, double n_elems, double width) {
    column.width += width;
    column.n_elems += n_elems;
    column.bits += 8 * static_cast<double>(record.tensor->stored_bytes);
    const auto nmse = record.nmse_decibels();
    std::string error;
    if (nmse && !std::isnan(*nmse)) {
      column.n_lossy += n_elems;
      column.squared_errors += n_elems * std::pow(10, std::min(*nmse, 100.0) / 10);
      error = ", " + decibels(*nmse);
    }
    if (!column.title.empty()) {
      if (!column.title.ends_with(" …")) column.title += " …";
      return;
    }
    column.title = fmt::format("{}: {:.2f} bits per weight{}", record.tensor->name,
                               record.bits_per_weight(), error);
  }

  void draw_runs(double bits_bottom, double bottom) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      if (i % 2 == 1 && run.width >= kMinColumn) {
        text_ += svg_box({run.x, kTop, run.width, bits_bottom - kTop}, "stripe");
        if (bottom > bits_bottom) {
          const double top = bits_bottom + kBetween;
          text_ += svg_box({run.x, top, run.width, bottom - top}, "stripe");
        }
      }
      const auto most = static_cast<std::size_t>(std::max(run.width - 6, 0.0) / kLetterWidth);
      if (most < 7 && most < run.layer.size()) continue;
      text_ +=
          svg_text(run.x + run.width / 2, bottom + 15, label(run.layer, most), "middle", "soft");
    }
  }

  double highest_column() const {
    double highest = 1;
    for (const Column& column : columns_) highest = std::max(highest, column.bits_each());
    return highest;
  }

  // The most bits that the chart has room for.
  double shown_bits() const {
    std::vector<const Column*> order;
    for (const Column& column : columns_) order.push_back(&column);
    std::sort(order.begin(), order.end(),
              [](const Column* a, const Column* b) { return a->bits_each() > b->bits_each(); });
    double share = 0;
    for (const Column* column : order) {
      share += column->width / inner_width();
      if (share <= kCutShare) continue;
      const double enough = std::max(column->bits_each(), 1.0);
      return enough * kCutFactor < highest_column() ? enough : highest_column();
    }
    return highest_column();
  }

  void draw_bits(double bottom) {
    const double highest = highest_column();
    const double most = shown_bits();
    const auto marks = ticks(0, most, 5);
    // Room above the highest column, where the average would otherwise be written into it.
    const double high = std::max(marks.back(), most * 1.04);
    const auto y_of = [&](double bits) {
      return bottom - std::min(bits / high, 1.0) * kBitsHeight;
    };
    for (const double mark : marks) {
      text_ += svg_line(kChartLeft, y_of(mark), width_ - kRight, y_of(mark), "grid");
      text_ += svg_text(kChartLeft - 5, y_of(mark) + 4, number(mark), "end", "soft");
    }
    const bool is_cut = highest > high;
    text_ += svg_text(2, 10,
                      is_cut ? fmt::format("bits per weight, up to {:.0f} (cut off)", highest)
                             : "bits per weight",
                      "start", "soft");
    for (const Column& column : columns_) {
      const double y = y_of(column.bits_each());
      const bool is_lossy = 2 * column.n_lossy > column.n_elems;
      // A hair wider, so that no background shows between neighbours.
      text_ += svg_box({column.x, y, column.width + 0.2, bottom - y},
                       is_lossy ? "lossy" : "lossless", column.title);
    }
    const double average = y_of(data_.bits_per_weight());
    text_ += svg_line(kChartLeft, average, width_ - kRight, average, "average");
    text_ += svg_text(width_ - kRight, 10, fmt::format("average {:.2f}", data_.bits_per_weight()),
                      "end", "strong");
  }

  void draw_errors(double top, double bottom) {
    double low = 0;
    double high = kMinDecibels;
    for (const Column& column : columns_) {
      if (!has_error(column)) continue;
      low = std::min(low, column.nmse());
      high = std::max(high, column.nmse());
    }
    const auto marks = ticks(std::max(low, kMinDecibels), std::max(high, low + 1), 4);
    low = marks.front();
    high = std::max(marks.back(), high);
    const auto y_of = [&](double nmse) {
      return bottom - (std::max(nmse, low) - low) / (high - low) * (bottom - top);
    };
    for (const double mark : marks) {
      text_ += svg_line(kChartLeft, y_of(mark), width_ - kRight, y_of(mark), "grid");
      text_ += svg_text(kChartLeft - 5, y_of(mark) + 4, number(mark), "end", "soft");
    }
    text_ += svg_text(2, top - 9, "error, dB of the tensor's power (NMSE)", "start", "soft");
    for (const Column& column : columns_) {
      if (!has_error(column)) continue;
      const double y = y_of(column.nmse());
      text_ += svg_box({column.x, y, column.width + 0.2, bottom - y}, "error-area", column.title);
      text_ += svg_line(column.x, y, column.x + column.width, y, "error-line");
    }
  }

  const ReportData& data_;
  const double width_;
  const double scale_;  // pixels for each element
  std::vector<Column> columns_;
  std::vector<Run> runs_;
  std::string text_;
};

}  // namespace

std::string model_svg(const ReportData& data, double width) {
  return ModelChart(data, width).draw();
}

}  // namespace cfck::tools::report
