#include "tools/spectrum/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "tools/report/pictures/svg.hpp"
#include "tools/report/text/page_text.hpp"
#include "tools/spectrum/text.hpp"

namespace cfck::tools {
namespace {

using report::Box;
using report::place;
using report::svg_box;
using report::svg_line;
using report::svg_text;

constexpr double kWidth = 960;
constexpr double kRowHeight = 176;
constexpr double kTop = 34;  // of the charts, below the name
constexpr double kChartHeight = 100;
constexpr double kMargin = 12;
// Energy density by band is drawn from -20 to 20 dB around the mean.
constexpr double kDecibels = 20;
constexpr std::size_t kMaxPointsOfCurve = 200;

constexpr std::string_view kStyle =
    "<style>svg{font:12px system-ui,sans-serif;fill:#18313b;background:#fff}"
    ".name{font-weight:600}.soft{fill:#5c7079}.bar{fill:#2b83a3}.grid{stroke:#d8e2e6}"
    ".line{stroke:#2b83a3;stroke-width:1.5;fill:none}"
    "@media(prefers-color-scheme:dark){svg{fill:#e8f0f2;background:#12191c}.soft{fill:#93a5ac}"
    ".bar{fill:#55a6bb}.grid{stroke:#2c3a40}.line{stroke:#76b7ca}}</style>";

std::string bands_chart(const TensorSpectrum& spectrum, const Box& box) {
  const BandEnergy& energy = spectrum.energy;
  const double total = total_energy(energy);
  const double middle = box.y + box.height / 2;
  std::string text = svg_line(box.x, middle, box.x + box.width, middle, "grid");
  text += svg_text(box.x, box.y - 4, "energy by frequency, in dB", "start", "soft");
  if (total <= 0 || energy.bands.empty()) return text;
  const double width = box.width / static_cast<double>(energy.bands.size());
  double x = box.x;
  for (const FrequencyBand& band : energy.bands) {
    const double share = band.energy / total;
    const double part =
        static_cast<double>(band.n_coefficients) / static_cast<double>(spectrum.n_values);
    const double decibels =
        share > 0 ? std::clamp(10 * std::log10(share / part), -kDecibels, kDecibels) : -kDecibels;
    const double height = std::abs(decibels) / kDecibels * box.height / 2;
    text += svg_box({x + 2, decibels > 0 ? middle - height : middle, width - 4, height}, "bar",
                    fmt::format("{:.2f} % of the energy", 100 * share));
    text += svg_text(x + width / 2, box.y + box.height + 14,
                     energy.bands.size() > 5 ? fmt::format("{}", band.first) : band_name(band),
                     "middle", "soft");
    x += width;
  }
  return text;
}

std::string singular_chart(const TensorSpectrum& spectrum, const Box& box) {
  std::string text =
      svg_line(box.x, box.y + box.height, box.x + box.width, box.y + box.height, "grid");
  text += svg_line(box.x, box.y, box.x + box.width, box.y, "grid");
  text += svg_text(box.x, box.y - 4, "energy by singular values", "start", "soft");
  if (!spectrum.singular) {
    return text + svg_text(box.x, box.y + box.height / 2, "none", "start", "soft");
  }
  const std::vector<double>& values = spectrum.singular->values;
  double energy = 0;
  for (const double value : values) energy += value * value;
  std::string path = fmt::format("M{} {}", place(box.x), place(box.y + box.height));
  double sum = 0;
  const std::size_t step = std::max<std::size_t>(1, values.size() / kMaxPointsOfCurve);
  for (std::size_t i = 0; i < values.size() && energy > 0; ++i) {
    sum += values[i] * values[i];
    if (i % step != 0 && i + 1 != values.size()) continue;
    const double part = static_cast<double>(i + 1) / static_cast<double>(values.size());
    path += fmt::format("L{} {}", place(box.x + part * box.width),
                        place(box.y + (1 - sum / energy) * box.height));
  }
  text += fmt::format(R"(<path d="{}" class="line"/>)", path);
  return text + svg_text(box.x, box.y + box.height + 14,
                         fmt::format("effective rank {:.1f} of {}; 99 % in {}",
                                     spectrum.singular->effective_rank, values.size(),
                                     spectrum.singular->rank_99),
                         "start", "soft");
}

std::string codecs_chart(const TensorSpectrum& spectrum, const Box& box) {
  std::string text = svg_text(box.x, box.y - 4, "bits per weight", "start", "soft");
  double most = 1;
  for (const CodecCost& cost : spectrum.costs)
    most = std::max(most, cost.bits_per_weight.value_or(0));
  constexpr double kLine = 18;
  constexpr double kLabel = 186;
  for (std::size_t i = 0; i < spectrum.costs.size(); ++i) {
    const CodecTrial& trial = codec_trials()[i];
    const double y = box.y + kLine * static_cast<double>(i);
    text +=
        svg_text(box.x, y + 12, fmt::format("{} {}", trial.codec, trial.request), "start", "soft");
    if (!spectrum.costs[i].bits_per_weight) {
      text += svg_text(box.x + kLabel, y + 12, "without loss", "start", "soft");
      continue;
    }
    const double bits = *spectrum.costs[i].bits_per_weight;
    const double width = bits / most * (box.width - kLabel - 40);
    text += svg_box({box.x + kLabel, y + 2, width, 12}, "bar");
    text += svg_text(box.x + kLabel + width + 4, y + 12, fmt::format("{:.2f}", bits), "start");
  }
  return text;
}

}  // namespace

std::string spectrum_picture(const std::vector<TensorSpectrum>& spectra) {
  std::vector<const TensorSpectrum*> shown;
  for (const TensorSpectrum& spectrum : spectra) {
    if (!spectrum.failure && shown.size() < kMaxPictured) shown.push_back(&spectrum);
  }
  const double height = kRowHeight * static_cast<double>(std::max<std::size_t>(shown.size(), 1));
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(role="img" aria-label="Spectra of tensors">)",
      place(kWidth), place(height));
  text += kStyle;
  double y = 0;
  for (const TensorSpectrum* spectrum : shown) {
    const StoredTensor& tensor = *spectrum->tensor;
    text += svg_text(kMargin, y + 16, report::shortened(escaped(tensor.name), 90), "start", "name");
    text += svg_text(kWidth - kMargin, y + 16,
                     fmt::format("{}{}", type_text(tensor), spectrum->is_whole ? "" : ", a sample"),
                     "end", "soft");
    const double top = y + kTop;
    text += bands_chart(*spectrum, {kMargin, top, 230, kChartHeight});
    text += singular_chart(*spectrum, {kMargin + 260, top, 230, kChartHeight});
    text += codecs_chart(*spectrum, {kMargin + 520, top, kWidth - 2 * kMargin - 520, kChartHeight});
    text += svg_line(kMargin, y + kRowHeight - 8, kWidth - kMargin, y + kRowHeight - 8, "grid");
    y += kRowHeight;
  }
  return text + std::string(report::kSvgEnd) + "\n";
}

}  // namespace cfck::tools
