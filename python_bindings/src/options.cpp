#include "cfck/options.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/glob.hpp"
#include "calibration.hpp"
#include "encode/rules/encode_rules.hpp"
#include "errors.hpp"
#include "model/archive_base.hpp"
#include "open_options.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

using Rules = std::vector<std::tuple<std::string, TensorOptions, bool>>;
using Learned = std::vector<std::pair<std::string, LearnedSteps>>;

// "a, b or c"
std::string alternatives(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

CodecChoice codec_choice(const std::string& name) {
  const auto choice = codec_choice_from_name(name);
  if (!choice) {
    raise(invalid_argument("unknown codec \"" + name + "\"; it may be " +
                           alternatives(codec_choice_names())));
  }
  return *choice;
}

EntropyId entropy_choice(const std::string& name) {
  const auto choice = entropy_choice_from_name(name);
  if (!choice) {
    raise(invalid_argument("unknown entropy stage \"" + name + "\"; it may be zstd or rans"));
  }
  return *choice;
}

EncodeLevel encode_level(const std::string& name) {
  const auto level = encode_level_from_name(name);
  if (!level) {
    raise(invalid_argument("unknown level \"" + name + "\"; it may be fast, default or archive"));
  }
  return *level;
}

template <class T>
T checked(Result<T> parsed) {
  if (!parsed) raise(parsed.error());
  return *parsed;
}

std::optional<StepPreset> step_preset(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const auto preset = step_preset_from_name(*name);
  if (!preset) {
    raise(invalid_argument("unknown steps \"" + *name +
                           "\"; they may be flat, prior, model, calibrated or feedback"));
  }
  return preset;
}

std::optional<Quality> quality_choice(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const auto quality = quality_from_name(*name);
  if (!quality) {
    raise(invalid_argument("unknown quality \"" + *name + "\"; it may be " +
                           alternatives(quality_names())));
  }
  return quality;
}

EncodeOptions encode_options(const TensorOptions& plain, std::optional<std::uint64_t> size,
                             Rules rules, const SharedCalibration* calibration,
                             std::vector<std::string> exempt, unsigned threads,
                             std::uint32_t chunk_elems, const std::string& entropy,
                             const std::string& level, Learned learned, const SharedBase* base) {
  EncodeOptions options;
  options.set_tensor_options(plain);
  options.size = size;
  for (auto& [pattern, chosen, force] : rules) {
    options.rules.push_back({std::move(pattern), chosen, force});
  }
  for (auto& [name, steps] : learned) {
    options.learned_steps.insert_or_assign(std::move(name), std::move(steps));
  }
  options.exempt = std::move(exempt);
  options.threads = threads;
  options.chunk_elems = chunk_elems;
  options.entropy = entropy_choice(entropy);
  options.level = encode_level(level);
  options.base = base_of(base);
  if (options.base != nullptr) take(model::check_can_be_base(*options.base));
  if (calibration != nullptr) options.calibration = calibration->calibration;
  if (options.calibration && !options.calibration->is_used_by(options)) {
    raise(invalid_argument(
        "calibration needs a quality or a target, e.g. bits_per_weight; without one nothing is "
        "lost"));
  }
  return options;
}

void bind_learned_steps(nb::module_& module) {
  nb::class_<LearnedSteps>(module, "LearnedSteps", "Steps that a tensor was trained with.")
      .def(
          "__init__",
          [](LearnedSteps* self, double step, std::vector<std::int16_t> bands,
             std::vector<std::int16_t> rows, std::vector<std::int16_t> columns,
             std::vector<std::uint8_t> block, unsigned trellis_states) {
            new (self) LearnedSteps{step,
                                    std::move(bands),
                                    std::move(rows),
                                    std::move(columns),
                                    std::move(block),
                                    trellis_states};
          },
          nb::kw_only(), "step"_a, "bands"_a, "rows"_a, "columns"_a, "block"_a, "trellis_states"_a);
}

}  // namespace

void bind_options(nb::module_& module) {
  module.def(
      "default_entropy", [] { return std::string(entropy_name(kDefaultEntropy)); },
      "What writers use unless told otherwise.");
  module.def("is_optimizer_state", &encode::is_optimizer_state, "name"_a,
             "Whether plain options leave a tensor alone because of its name.");
  module.def("matches_glob", &detail::matches_glob, "pattern"_a, "name"_a,
             "Whether the pattern of a rule matches a name.");
  module.def(
      "parse_nmse", [](const std::string& text) { return checked(parse_nmse(text)); }, "text"_a,
      "A ratio or decibels, as a ratio.");
  module.def(
      "parse_psnr", [](const std::string& text) { return checked(parse_psnr(text)); }, "text"_a,
      "Decibels, with their unit or without.");
  module.def(
      "parse_size", [](const std::string& text) { return checked(parse_size(text)); }, "text"_a,
      "A number with a unit or without, in bytes.");
  nb::class_<TensorOptions>(module, "TensorOptions", "Choices for a tensor, not checked yet.")
      .def(
          "__init__",
          [](TensorOptions* self, const std::string& codec, std::optional<double> max_abs_error,
             std::optional<double> max_rel_error, std::optional<double> max_sigma_error,
             bool per_row, std::optional<double> nmse, std::optional<double> psnr,
             std::optional<double> bits_per_weight, std::optional<unsigned> trellis_states,
             const std::optional<std::string>& steps, std::vector<std::uint8_t> block,
             const std::optional<std::string>& quality) {
            new (self) TensorOptions{codec_choice(codec),
                                     max_abs_error,
                                     max_rel_error,
                                     max_sigma_error,
                                     per_row,
                                     nmse,
                                     psnr,
                                     bits_per_weight,
                                     trellis_states,
                                     step_preset(steps),
                                     std::move(block),
                                     quality_choice(quality)};
          },
          nb::kw_only(), "codec"_a, "max_abs_error"_a.none(), "max_rel_error"_a.none(),
          "max_sigma_error"_a.none(), "per_row"_a, "nmse"_a.none(), "psnr"_a.none(),
          "bits_per_weight"_a.none(), "trellis_states"_a.none(), "steps"_a.none(), "block"_a,
          "quality"_a.none());
  bind_learned_steps(module);
  nb::class_<EncodeOptions>(module, "EncodeOptions", "Choices for a file, not checked yet.")
      .def(
          "__init__",
          [](EncodeOptions* self, const TensorOptions& plain, std::optional<std::uint64_t> size,
             Rules rules, const SharedCalibration* calibration, std::vector<std::string> exempt,
             unsigned threads, std::uint32_t chunk_elems, const std::string& entropy,
             const std::string& level, Learned learned_steps, const SharedBase* base) {
            new (self) EncodeOptions(encode_options(
                plain, size, std::move(rules), calibration, std::move(exempt), threads, chunk_elems,
                entropy, level, std::move(learned_steps), base));
          },
          nb::keep_alive<1, 12>(), nb::kw_only(), "plain"_a, "size"_a.none(), "rules"_a,
          "calibration"_a.none(), "exempt"_a, "threads"_a, "chunk_elems"_a, "entropy"_a, "level"_a,
          "learned_steps"_a, "base"_a.none(),
          "A rule is a pattern, its options, and whether it lifts exemptions.");
}

}  // namespace cfck::python
