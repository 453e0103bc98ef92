#include "tools/inspect/bands/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

using spectral::BandTotals;
using spectral::QuarterField;
using spectral::SpectralCoding;
using Json = nlohmann::ordered_json;

// With more bands than this, those that follow one another share a line, or are shown as a range.
constexpr std::size_t kMaxLines = 64;
constexpr std::size_t kMaxExponents = 16;

// Indexed by number (spectral/spec.md, section 3).
constexpr std::string_view kOrderNames[] = {"storage", "bands", "bins", "row blocks"};

std::string order_name(spectral::CoefficientOrder order) {
  const auto number = static_cast<std::size_t>(order);
  return number < std::size(kOrderNames) ? std::string(kOrderNames[number])
                                         : fmt::format("unknown({})", number);
}

const char* transform_name(const SpectralCoding& coding) {
  return coding.parameters.transforms ? "dct" : "identity";
}

double each(double sum, std::uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double rms_step(const SpectralCoding& coding, const BandTotals& band) {
  return coding.parameters.step * std::sqrt(each(band.squared_steps, band.n_values));
}

// The error of the record is known; without the original it is distributed over the coefficients
// like their squared steps.
double rms_error(const BandReport& report, const SpectralCoding& coding, const BandTotals& band) {
  if (report.is_measured) {
    return coding.parameters.step * std::sqrt(each(band.squared_errors, band.n_values));
  }
  double sum = 0;  // of squares, in base steps of this coding
  for (const SpectralCoding& other : report.description.codings()) {
    const double ratio = other.parameters.step / coding.parameters.step;
    for (const BandTotals& some : other.bands) sum += some.squared_steps * ratio * ratio;
  }
  if (sum == 0 || !report.record->error) return 0;
  const auto n_values = static_cast<double>(report.record->n_elems);
  return report.record->error->rmse *
         std::sqrt(each(band.squared_steps, band.n_values) * n_values / sum);
}

double rms_of_original(const SpectralCoding& coding, const BandTotals& band) {
  return coding.parameters.step * std::sqrt(each(band.squared_values, band.n_values));
}

double band_nmse(const BandTotals& band) {
  return band.squared_errors == 0 ? -std::numeric_limits<double>::infinity()
                                  : 10 * std::log10(band.squared_errors / band.squared_values);
}

// Returns, for each band, its position in the block, whose sides come with the coding.
std::vector<std::vector<unsigned>> places_of_bands(const SpectralCoding& coding) {
  const spectral::BlockSides& sides = coding.parameters.sides;
  std::vector<std::vector<unsigned>> places(coding.bands.size());
  const auto numbers = coding.geometry.band_of_position();
  for (std::size_t position = 0; position < numbers.size(); ++position) {
    std::vector<unsigned>& place = places[numbers[position]];
    place.resize(sides.size());
    std::size_t rest = position;
    for (std::size_t a = sides.size(); a-- > 0; rest /= sides[a]) {
      place[a] = static_cast<unsigned>(rest % sides[a]);
    }
  }
  return places;
}

std::string exponents_text(const char* what, const std::vector<std::int16_t>& entries) {
  if (entries.empty()) return {};
  if (entries.size() <= kMaxExponents && std::string_view(what) == "band") {
    return fmt::format("; by {} {}", what, fmt::join(entries, " "));
  }
  const auto [min, most] = std::minmax_element(entries.begin(), entries.end());
  return fmt::format("; by {} {} to {}", what, *min, *most);
}

// "; by band 0 2 -1; by row -3 to 4"
std::string field_text(const QuarterField& field) {
  return exponents_text("band", field.bands) + exponents_text("row", field.rows) +
         exponents_text("column", field.columns);
}

using Line = std::vector<std::string>;

// Formats lines with right-aligned columns.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      text += fmt::format("  {:>{}}", line[i], widths[i]);
    }
    text += '\n';
  }
  return text;
}

void add(BandTotals& sum, const BandTotals& band) {
  sum.n_values += band.n_values;
  sum.bits += band.bits;
  sum.squared_steps += band.squared_steps;
  sum.squared_values += band.squared_values;
  sum.squared_errors += band.squared_errors;
}

std::string table_text(const BandReport& report, const SpectralCoding& coding) {
  std::vector<Line> lines;
  lines.push_back({"band", coding.parameters.transforms ? "frequency" : "position", "values",
                   "step", "bits/weight", "share",
                   report.is_measured ? "rms error" : "rms error (est.)"});
  if (report.is_measured) lines[0].insert(lines[0].end(), {"rms", "NMSE dB"});
  const auto places = places_of_bands(coding);
  const std::size_t n_bands = coding.bands.size();
  const std::size_t n_together = (n_bands + kMaxLines - 1) / kMaxLines;
  const double all_bits = 8 * static_cast<double>(report.record->stored_bytes);
  for (std::size_t first = 0; first < n_bands; first += n_together) {
    const std::size_t last = std::min(first + n_together, n_bands) - 1;
    BandTotals sum;
    for (std::size_t b = first; b <= last; ++b) add(sum, coding.bands[b]);
    Line line{first == last ? std::to_string(first) : fmt::format("{}-{}", first, last),
              first == last && !places[first].empty()
                  ? fmt::format("{}", fmt::join(places[first], ","))
                  : "-",
              std::to_string(sum.n_values),
              fmt::format("{:.4g}", rms_step(coding, sum)),
              fmt::format("{:.3f}", each(sum.bits, sum.n_values)),
              fmt::format("{:.1f} %", 100 * sum.bits / all_bits),
              fmt::format("{:.4g}", rms_error(report, coding, sum))};
    if (report.is_measured) {
      line.push_back(fmt::format("{:.4g}", rms_of_original(coding, sum)));
      line.push_back(decibel_text(band_nmse(sum)));
    }
    lines.push_back(std::move(line));
  }
  return aligned(lines);
}

std::string count_text(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string how_coded(const BandReport& report, const SpectralCoding& coding) {
  const spectral::SpectralParameters& parameters = coding.parameters;
  std::string text = transform_name(coding);
  if (coding.bands.size() > 1) {
    text += fmt::format(", blocks of {}", fmt::join(parameters.sides, "x"));
  }
  return text + fmt::format(", {}, order {}, stage {}, {}{}",
                            count_text(parameters.n_states, "trellis state"),
                            order_name(parameters.order), entropy_name(report.record->entropy),
                            count_text(coding.n_chunks, "chunk"),
                            coding.is_inline ? ", parameters inline" : "");
}

std::string coding_text(const BandReport& report, const SpectralCoding& coding, bool quiet) {
  const spectral::SpectralParameters& parameters = coding.parameters;
  std::string text = "  " + how_coded(report, coding) + "\n";
  text += fmt::format(
      "  step {:.6g}{}\n", parameters.step,
      parameters.steps.empty() ? "" : ", times 2^(quarters/4)" + field_text(parameters.steps));
  if (!parameters.scales.empty()) {
    text += fmt::format("  scale, in quarter-log2 steps{}\n", field_text(parameters.scales));
  }
  if (coding.n_escapes != 0 || coding.n_exact != 0) {
    text += fmt::format("  {}, {}\n", count_text(coding.n_escapes, "escape"),
                        count_text(coding.n_exact, "value") + " kept exactly");
  }
  return quiet ? text : text + table_text(report, coding);
}

Json entries_json(const std::vector<std::int16_t>& entries, bool all) {
  if (entries.empty()) return nullptr;
  const auto [min, most] = std::minmax_element(entries.begin(), entries.end());
  Json json{{"n", entries.size()}, {"least", *min}, {"greatest", *most}};
  if (all) json["quarters"] = entries;
  return json;
}

Json field_json(const QuarterField& field) {
  if (field.empty()) return nullptr;
  return {{"bands", entries_json(field.bands, true)},
          {"rows", entries_json(field.rows, false)},
          {"columns", entries_json(field.columns, false)}};
}

Json bands_json(const BandReport& report, const SpectralCoding& coding) {
  const auto places = places_of_bands(coding);
  Json all = Json::array();
  for (std::size_t b = 0; b < coding.bands.size(); ++b) {
    const BandTotals& band = coding.bands[b];
    Json json{{"band", b},
              {coding.parameters.transforms ? "frequency" : "place", places[b]},
              {"n_values", band.n_values},
              {"step", number_json(rms_step(coding, band))},
              {"least_step", number_json(band.min_step * coding.parameters.step)},
              {"greatest_step", number_json(band.max_step * coding.parameters.step)},
              {"coefficient_bits", number_json(band.coefficient_bits)},
              {"bits", number_json(band.bits)},
              {"bits_per_weight", number_json(each(band.bits, band.n_values))}};
    const double error = rms_error(report, coding, band);
    json[report.is_measured ? "rms_error" : "estimated_rms_error"] = number_json(error);
    if (report.is_measured) {
      json["rms"] = number_json(rms_of_original(coding, band));
      json["nmse_db"] = number_json(band_nmse(band));
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json coding_json(const BandReport& report, const SpectralCoding& coding) {
  const spectral::SpectralParameters& parameters = coding.parameters;
  return {{"transform", transform_name(coding)},
          {"block", parameters.sides},
          {"morton_ranges", parameters.has_ranges},
          {"trellis_states", parameters.n_states},
          {"order", order_name(parameters.order)},
          {"step", parameters.step},
          {"step_field", field_json(parameters.steps)},
          {"scale_field", field_json(parameters.scales)},
          {"parameters", coding.is_inline ? "inline" : "preamble"},
          {"n_chunks", coding.n_chunks},
          {"n_values", coding.n_values},
          {"n_escapes", coding.n_escapes},
          {"n_exact", coding.n_exact},
          {"bands", bands_json(report, coding)}};
}

}  // namespace

std::vector<CodingFigures> coding_figures(const BandReport& report) {
  std::vector<CodingFigures> all;
  for (const SpectralCoding& coding : report.description.codings()) {
    CodingFigures figures{
        how_coded(report, coding), coding.parameters.step, report.is_measured, {}};
    const auto places = places_of_bands(coding);
    for (std::size_t b = 0; b < coding.bands.size(); ++b) {
      const BandTotals& band = coding.bands[b];
      figures.bands.push_back({fmt::format("{}", fmt::join(places[b], ",")), band.n_values,
                               rms_step(coding, band), each(band.bits, band.n_values),
                               rms_error(report, coding, band),
                               report.is_measured ? rms_of_original(coding, band) : 0});
    }
    all.push_back(std::move(figures));
  }
  return all;
}

std::string band_report_text(const BandReport& report, const Console& console) {
  const StoredTensor& tensor = *report.tensor;
  const Record& record = *report.record;
  std::string text =
      fmt::format("{}  {}  {} values in {} bytes", console.bold(escaped(tensor.name)),
                  type_text(tensor), record.n_elems, record.stored_bytes);
  if (record.n_elems > 0) text += fmt::format(", {:.3f} bits/weight", record.bits_per_weight());
  if (record.error) text += fmt::format(", rms error {:.4g}", record.error->rmse);
  if (record.error && record.error->quality) {
    text += fmt::format(", NMSE {} dB", decibel_text(nmse_decibels(*record.error)));
  }
  text += '\n';
  for (const SpectralCoding& coding : report.description.codings()) {
    text += coding_text(report, coding, console.quiet());
  }
  const spectral::LosslessChunks& lossless = report.description.lossless();
  if (lossless.n_chunks > 0) {
    text += fmt::format("  {} lossless: {} values, {:.3f} bits/weight\n",
                        count_text(lossless.n_chunks, "chunk"), lossless.n_values,
                        each(lossless.bits, lossless.n_values));
  }
  return text;
}

Json band_report_json(const BandReport& report) {
  const Record& record = *report.record;
  Json json{{"name", report.tensor->name},
            {"dtype", dtype_name(record.dtype)},
            {"shape", record.shape},
            {"codec", codec_name(record.codec)},
            {"entropy", entropy_name(record.entropy)},
            {"n_elems", record.n_elems},
            {"n_chunks", record.n_chunks},
            {"stored_bytes", record.stored_bytes},
            {"bits_per_weight", record.bits_per_weight()}};
  if (record.error) json["rmse"] = number_json(record.error->rmse);
  json["codings"] = Json::array();
  for (const SpectralCoding& coding : report.description.codings()) {
    json["codings"].push_back(coding_json(report, coding));
  }
  const spectral::LosslessChunks& lossless = report.description.lossless();
  json["lossless_chunks"] = {{"n_chunks", lossless.n_chunks},
                             {"n_values", lossless.n_values},
                             {"bits", number_json(lossless.bits)}};
  return json;
}

}  // namespace cfck::tools
