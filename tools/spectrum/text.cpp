#include "tools/spectrum/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxNameColumns = 44;

std::string gain_text(double decibels) {
  return std::isfinite(decibels) ? fmt::format("{:.2f} dB", decibels) : "unbounded";
}

std::string scales_text(const Scales& scales) {
  return fmt::format("{} from {:.4g} to {:.4g}, median {:.4g}", scales.n, scales.min, scales.max,
                     scales.median);
}

std::string cost_text(const CodecTrial& trial, const CodecCost& cost, DType dtype) {
  const std::string name = fmt::format("{} {}", trial.codec, trial.request);
  if (!cost.applies) {
    return fmt::format("    {:<32} not for {}, which keeps every bit\n", name, dtype_name(dtype));
  }
  if (!cost.bits_per_weight) {
    return fmt::format("    {:<32} stores it without loss, which takes no more\n", name);
  }
  const std::string loss =
      std::isfinite(cost.nmse_db) ? fmt::format("   NMSE {:.2f} dB", cost.nmse_db) : "";
  return fmt::format("    {:<32} {:>7.3f} bits per weight{}\n", name, *cost.bits_per_weight, loss);
}

std::string shortened_name(const std::string& name) {
  const std::string shown = name.empty() ? "\"\"" : escaped(name);
  if (shown.size() <= kMaxNameColumns) return shown;
  return "..." + shown.substr(shown.size() - (kMaxNameColumns - 3));
}

std::string bits_cell(const std::vector<CodecCost>& costs, std::size_t i) {
  if (i >= costs.size()) return "";
  return costs[i].bits_per_weight ? fmt::format("{:.2f}", *costs[i].bits_per_weight) : "-";
}

Json scales_json(const Scales& scales) {
  return {{"n", scales.n},
          {"min_rms", number_json(scales.min)},
          {"median_rms", number_json(scales.median)},
          {"max_rms", number_json(scales.max)}};
}

Json singular_json(const Singular& singular) {
  Json values = Json::array();
  for (const double value : singular.values) values.push_back(number_json(value));
  return {{"n", singular.values.size()},
          {"stable_rank", singular.stable_rank},
          {"effective_rank", singular.effective_rank},
          {"rank_90", singular.rank_90},
          {"rank_99", singular.rank_99},
          {"rank_99_9", singular.rank_999},
          {"values", std::move(values)}};
}

}  // namespace

std::string band_name(const FrequencyBand& band) {
  return band.first == band.last ? fmt::format("{}", band.first)
                                 : fmt::format("{}-{}", band.first, band.last);
}

std::string block_text(const std::vector<std::uint32_t>& block) {
  return fmt::format("{}", fmt::join(block, "x"));
}

double total_energy(const BandEnergy& energy) {
  double total = 0;
  for (const FrequencyBand& band : energy.bands) total += band.energy;
  return total;
}

std::string spectrum_text(const TensorSpectrum& spectrum, const Console& console) {
  const StoredTensor& tensor = *spectrum.tensor;
  std::string text =
      fmt::format("{}  {}\n", console.bold(tensor.name.empty() ? "\"\"" : escaped(tensor.name)),
                  type_text(tensor));
  if (!spectrum.is_whole) {
    text += fmt::format("  figures of a sample of {} of its {} values\n",
                        human_count(spectrum.n_values), human_count(tensor.n_elems));
  }
  if (spectrum.n_not_finite > 0) {
    text += fmt::format("  {} values are NaN or infinite, and count as 0\n", spectrum.n_not_finite);
  }
  const BandEnergy& energy = spectrum.energy;
  const double total = total_energy(energy);
  text += fmt::format("  blocks of {}: coding gain {}\n", block_text(energy.block),
                      gain_text(energy.coding_gain_db));
  for (const FrequencyBand& band : energy.bands) {
    const double share = total > 0 ? band.energy / total : 0;
    const double part =
        static_cast<double>(band.n_coefficients) / static_cast<double>(spectrum.n_values);
    text +=
        fmt::format("    frequency {:<7} {:>6.2f} % of the energy in {:>6.2f} % of the values\n",
                    band_name(band), 100 * share, 100 * part);
  }
  if (spectrum.singular) {
    const Singular& singular = *spectrum.singular;
    text += fmt::format(
        "  {} singular values: effective rank {:.1f}, stable rank {:.1f}; 90 % of the energy in "
        "{}, 99 % in {}, 99.9 % in {}\n",
        singular.values.size(), singular.effective_rank, singular.stable_rank, singular.rank_90,
        singular.rank_99, singular.rank_999);
  } else {
    text += "  singular values: " + spectrum.no_singular + "\n";
  }
  if (spectrum.rows.n > 0) {
    text += "  RMS of rows: " + scales_text(spectrum.rows) + "\n";
    text += "  RMS of columns: " + scales_text(spectrum.columns) + "\n";
  }
  if (spectrum.costs.empty()) return text;
  text += spectrum.costs_are_of_sample ? "  codecs, tried on a sample:\n" : "  codecs:\n";
  for (std::size_t i = 0; i < spectrum.costs.size(); ++i) {
    text += cost_text(codec_trials()[i], spectrum.costs[i], tensor.dtype);
  }
  return text;
}

std::string spectrum_table(const std::vector<TensorSpectrum>& spectra) {
  std::string text = fmt::format("{:<{}}  {:>18}  {:>6}  {:>15}  {:>9}  {:>8}  {:>11}  {:>13}\n",
                                 "name", kMaxNameColumns, "shape", "gain", "effective rank",
                                 "row RMS", "lossless", "direct 1e-2", "spectral -20dB");
  for (const TensorSpectrum& spectrum : spectra) {
    if (spectrum.failure) continue;
    const StoredTensor& tensor = *spectrum.tensor;
    const std::string rank = spectrum.singular
                                 ? fmt::format("{:.0f} of {}", spectrum.singular->effective_rank,
                                               spectrum.singular->values.size())
                                 : "";
    const std::string spread = spectrum.rows.n > 0 && spectrum.rows.min > 0
                                   ? fmt::format("x{:.3g}", spectrum.rows.max / spectrum.rows.min)
                                   : "";
    const double gain = spectrum.energy.coding_gain_db;
    text += fmt::format("{:<{}}  {:>18}  {:>6}  {:>15}  {:>9}  {:>8}  {:>11}  {:>13}\n",
                        shortened_name(tensor.name), kMaxNameColumns,
                        fmt::format("{}", fmt::join(tensor.shape, "x")),
                        std::isfinite(gain) ? fmt::format("{:.2f}", gain) : "-", rank, spread,
                        bits_cell(spectrum.costs, 1), bits_cell(spectrum.costs, 3),
                        bits_cell(spectrum.costs, 5));
  }
  text +=
      "\ngain: coding gain of the block transform in dB; row RMS: the largest over the smallest;\n"
      "the last three: bits per weight of `--codec lossless`, of `--max-sigma-error 1e-2`, and of\n"
      "`--nmse -20dB`. Name a tensor for all of its figures.\n";
  return text;
}

Json spectrum_json(const TensorSpectrum& spectrum) {
  const StoredTensor& tensor = *spectrum.tensor;
  Json json{{"name", tensor.name},
            {"dtype", dtype_name(tensor.dtype)},
            {"shape", tensor.shape},
            {"n_elems", tensor.n_elems}};
  if (spectrum.failure) {
    json["error"] = Json::parse(error_json(*spectrum.failure));
    return json;
  }
  json["n_values"] = spectrum.n_values;
  json["is_sample"] = !spectrum.is_whole;
  json["n_not_finite"] = spectrum.n_not_finite;
  json["rms"] = number_json(spectrum.rms);
  json["block"] = spectrum.energy.block;
  json["coding_gain_db"] = number_json(spectrum.energy.coding_gain_db);
  json["bands"] = Json::array();
  for (const FrequencyBand& band : spectrum.energy.bands) {
    json["bands"].push_back({{"first_frequency", band.first},
                             {"last_frequency", band.last},
                             {"n_coefficients", band.n_coefficients},
                             {"energy", number_json(band.energy)}});
  }
  if (spectrum.singular) json["singular_values"] = singular_json(*spectrum.singular);
  if (spectrum.rows.n > 0) {
    json["rows"] = scales_json(spectrum.rows);
    json["columns"] = scales_json(spectrum.columns);
  }
  if (!spectrum.costs.empty()) json["codecs_tried_on_sample"] = spectrum.costs_are_of_sample;
  for (std::size_t i = 0; i < spectrum.costs.size(); ++i) {
    const CodecCost& cost = spectrum.costs[i];
    Json tried{{"codec", codec_trials()[i].codec}, {"request", codec_trials()[i].request}};
    tried["bits_per_weight"] = cost.bits_per_weight ? Json(*cost.bits_per_weight) : Json(nullptr);
    tried["nmse_db"] = number_json(cost.nmse_db);
    if (!cost.applies) tried["applies"] = false;
    json["codecs"].push_back(std::move(tried));
  }
  return json;
}

}  // namespace cfck::tools
