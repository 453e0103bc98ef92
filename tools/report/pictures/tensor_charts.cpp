#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/pictures/charts.hpp"
#include "tools/report/pictures/svg.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools::report {
namespace {

constexpr double kWidth = 340;
constexpr double kHistogramHeight = 130;
constexpr double kSide = 4;
constexpr double kPanelHeight = 84;
constexpr double kPanelTop = 18;
constexpr double kPanelGap = 30;
constexpr double kAxis = 18;  // the height of what is written below
constexpr double kLeft = 34;
constexpr std::size_t kMaxBandNames = 10;

double most_of(const std::vector<std::uint64_t>& counts) {
  return counts.empty() ? 0 : static_cast<double>(*std::max_element(counts.begin(), counts.end()));
}

// A line along the tops of bins.
std::string outline(const std::vector<std::uint64_t>& counts, double most, double bottom) {
  const double step = (kWidth - 2 * kSide) / static_cast<double>(counts.size());
  std::string path = fmt::format("M{} {}", place(kSide), place(bottom));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    // Square roots show the tails, and the gaps of coarse steps do not hide the shape.
    const double y = bottom - (bottom - 6) * std::sqrt(static_cast<double>(counts[i]) / most);
    path += fmt::format("V{}H{}", place(y), place(kSide + step * static_cast<double>(i + 1)));
  }
  return path + fmt::format("V{}", place(bottom));
}

// Bars of the bands, side by side.
class BandsChart {
 public:
  explicit BandsChart(const CodingFigures& coding)
      : coding_(coding),
        step_((kWidth - kLeft - kSide) / static_cast<double>(coding.bands.size())) {}

  std::string draw() {
    const double middle = kPanelTop + kPanelHeight;
    const double bottom = middle + kPanelGap + kPanelHeight;
    text_ = svg_begin(kWidth, bottom + kAxis, "Bits and errors by band");
    draw_bits(middle);
    draw_sizes(middle + kPanelGap, bottom);
    draw_names(bottom);
    return text_ + std::string(kSvgEnd);
  }

 private:
  Box bar(std::size_t band, double y, double bottom, double part = 1) const {
    const double gap = step_ > 5 ? 1 : 0;
    return {kLeft + step_ * static_cast<double>(band) + gap / 2, y, (step_ - gap) * part,
            std::max(bottom - y, 0.0)};
  }

  void draw_bits(double bottom) {
    double most = 1e-3;
    for (const BandFigures& band : coding_.bands) most = std::max(most, band.bits_per_weight);
    const auto marks = ticks(0, most, 3);
    const double high = std::max(marks.back(), most);
    const auto y_of = [&](double bits) { return bottom - bits / high * kPanelHeight; };
    text_ += svg_text(0, 10, "bits per weight by band", "start", "soft");
    for (const double mark : marks) {
      text_ += svg_line(kLeft, y_of(mark), kWidth - kSide, y_of(mark), "grid");
      text_ += svg_text(kLeft - 4, y_of(mark) + 4, number(mark), "end", "soft");
    }
    for (std::size_t b = 0; b < coding_.bands.size(); ++b) {
      const BandFigures& band = coding_.bands[b];
      text_ += svg_box(bar(b, y_of(band.bits_per_weight), bottom), "lossy",
                       fmt::format("band {} ({}): {:.3f} bits per weight, step {:.4g}", b,
                                   band.place, band.bits_per_weight, band.step));
    }
  }

  // On a logarithmic scale, since bands differ by powers of ten.
  void draw_sizes(double top, double bottom) {
    double low = 1e300;
    double high = 1e-300;
    for (const BandFigures& band : coding_.bands) {
      for (const double size : {band.rms, band.rms_error}) {
        if (size <= 0 || !std::isfinite(size)) continue;
        low = std::min(low, size);
        high = std::max(high, size);
      }
    }
    if (low > high) return;
    const double first = std::floor(std::log10(low) * 2 - 0.2) / 2;
    const double last = std::max(std::ceil(std::log10(high) * 2) / 2, first + 0.5);
    const auto y_of = [&](double size) {
      const double part = size > 0 ? (std::log10(size) - first) / (last - first) : 0;
      return bottom - std::clamp(part, 0.0, 1.0) * (bottom - top);
    };
    text_ += svg_text(0, top - 8,
                      coding_.is_measured ? "root mean square: values, errors"
                                          : "root mean square error, estimated",
                      "start", "soft");
    for (const double mark : ticks(first, last, 3)) {
      const double y = y_of(std::pow(10, mark));
      if (mark < first) continue;
      text_ += svg_line(kLeft, y, kWidth - kSide, y, "grid");
      text_ += svg_text(kLeft - 4, y + 4, fmt::format("{:.1g}", std::pow(10, mark)), "end", "soft");
    }
    for (std::size_t b = 0; b < coding_.bands.size(); ++b) {
      const BandFigures& band = coding_.bands[b];
      if (coding_.is_measured) {
        text_ += svg_box(bar(b, y_of(band.rms), bottom), "before",
                         fmt::format("band {}: values {:.4g}", b, band.rms));
      }
      text_ += svg_box(bar(b, y_of(band.rms_error), bottom, coding_.is_measured ? 0.5 : 1), "error",
                       fmt::format("band {}: errors {:.4g}", b, band.rms_error));
    }
  }

  void draw_names(double bottom) {
    const std::size_t n_bands = coding_.bands.size();
    for (std::size_t b = 0; b < n_bands; ++b) {
      if (n_bands > kMaxBandNames && b != 0 && b + 1 != n_bands) continue;
      const std::string& name = coding_.bands[b].place;
      const Box box = bar(b, 0, 0);
      const bool is_edge = n_bands > kMaxBandNames;
      const double x = !is_edge ? box.x + box.width / 2 : b == 0 ? box.x : box.x + box.width;
      text_ += svg_text(x, bottom + 14, name,
                        !is_edge ? "middle"
                        : b == 0 ? "start"
                                 : "end",
                        "soft");
    }
  }

  const CodingFigures& coding_;
  const double step_;
  std::string text_;
};

}  // namespace

std::string histogram_svg(const ValueScan& scan) {
  const double bottom = kHistogramHeight - kAxis;
  const bool has_before = !scan.before.empty();
  const double most = std::max({most_of(scan.before), most_of(scan.after), 1.0});
  std::string text =
      svg_begin(kWidth, kHistogramHeight, has_before ? "Values before and after" : "Values");
  if (has_before) {
    text += fmt::format(R"(<path d="{}Z" class="before"/>)", outline(scan.before, most, bottom));
  }
  text += fmt::format(R"(<path d="{}{}" class="{}"/>)", outline(scan.after, most, bottom),
                      has_before ? "" : "Z", has_before ? "after-line" : "after");
  text += svg_line(kSide, bottom, kWidth - kSide, bottom, "axis");
  const double width = scan.high - scan.low;
  if (scan.low < 0 && scan.high > 0 && std::isfinite(width)) {
    const double zero = kSide - scan.low / width * (kWidth - 2 * kSide);
    text += svg_line(zero, bottom, zero, bottom + 5, "axis");
    const bool has_room = zero > 70 && zero < kWidth - 70;
    if (has_room) text += svg_text(zero, bottom + 15, "0", "middle", "soft");
  }
  text += svg_text(kSide, bottom + 15, number(scan.low), "start", "soft");
  text += svg_text(kWidth - kSide, bottom + 15, number(scan.high), "end", "soft");
  return text + std::string(kSvgEnd);
}

std::string bands_svg(const CodingFigures& coding) { return BandsChart(coding).draw(); }

}  // namespace cfck::tools::report
