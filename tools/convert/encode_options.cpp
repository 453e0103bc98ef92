#include "tools/convert/encode_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "model/folder/model_folder.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kMaxRuleBytes = std::size_t{16} << 20;
constexpr const char* kOptionNames =
    "codec, max_abs_error, max_rel_error, max_sigma_error, per_row, nmse, psnr, bits_per_weight, "
    "trellis_states, steps, block, quality, force";

Error wrong(std::string message) { return invalid_argument(std::move(message)); }

Error prefixed(const std::string& where, Error error) {
  error.message = where + ": " + error.message;
  return error;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// `otherwise` explains why 0 and less make no sense.
Result<double> parse_positive(std::string_view text, std::string_view otherwise) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range && stop == end) {
    return wrong(
        fmt::format("'{}' is too large or too small for a number of 64 bits", escaped(text)));
  }
  if (error != std::errc() || stop != end) {
    return wrong(fmt::format("'{}' is not a number; write it as 1e-4 or 0.0001", escaped(text)));
  }
  if (!(number > 0) || !std::isfinite(number)) {
    return wrong(fmt::format("'{}' is not positive and finite; {}", escaped(text), otherwise));
  }
  return number;
}

Result<bool> parse_flag(std::optional<std::string_view> value) {
  if (!value || *value == "true") return true;
  if (*value == "false") return false;
  return wrong(fmt::format("'{}' is neither true nor false", escaped(*value)));
}

Result<void> set_option(TensorOptions& options, std::string_view name,
                        std::optional<std::string_view> value) {
  if (name == "per_row") {
    CFCK_TRY_ASSIGN(options.per_row, parse_flag(value));
    return {};
  }
  if (name == "codec") {
    const auto codec = codec_choice_from_name(value.value_or(""));
    if (!codec) {
      return wrong(fmt::format("'{}' is not a codec; choose {}", escaped(value.value_or("")),
                               alternatives(codec_choice_names())));
    }
    options.codec = *codec;
    return {};
  }
  if (name == "nmse") {
    CFCK_TRY_ASSIGN(options.nmse, parse_nmse(value.value_or("")));
    return {};
  }
  if (name == "psnr") {
    CFCK_TRY_ASSIGN(options.psnr, parse_psnr(value.value_or("")));
    return {};
  }
  if (name == "bits_per_weight") {
    CFCK_TRY_ASSIGN(options.bits_per_weight, parse_bits_per_weight(value.value_or("")));
    return {};
  }
  if (name == "trellis_states") {
    CFCK_TRY_ASSIGN(options.trellis_states, parse_trellis_states(value.value_or("")));
    return {};
  }
  if (name == "steps") {
    CFCK_TRY_ASSIGN(options.steps, parse_step_preset(value.value_or("")));
    return {};
  }
  if (name == "block") {
    CFCK_TRY_ASSIGN(options.block, parse_block(value.value_or("")));
    return {};
  }
  if (name == "quality") {
    CFCK_TRY_ASSIGN(options.quality, parse_quality(value.value_or("")));
    return {};
  }
  if (name == "size") {
    return wrong("applies to the whole file: use --size instead, or bits_per_weight in a rule");
  }
  std::optional<double>* const error = name == "max_abs_error"     ? &options.max_abs_error
                                       : name == "max_rel_error"   ? &options.max_rel_error
                                       : name == "max_sigma_error" ? &options.max_sigma_error
                                                                   : nullptr;
  if (error == nullptr)
    return wrong(fmt::format("no such option; the options are {}", kOptionNames));
  CFCK_TRY_ASSIGN(*error, parse_max_error(value.value_or("")));
  return {};
}

Result<void> set_rule_option(EncodeRule& rule, std::string_view name,
                             std::optional<std::string_view> value) {
  if (name != "force") return set_option(rule.options, name, value);
  CFCK_TRY_ASSIGN(rule.force, parse_flag(value));
  return {};
}

struct Rules {
  struct First {
    TensorOptions options;
    bool force = false;
    std::string where;  // for errors
  };
  std::vector<EncodeRule> rules;
  std::map<std::string, First> of_pattern;
};

Result<void> add_rule(Rules& rules, std::string_view text, const std::string& where) {
  auto rule = parse_rule(text);
  if (!rule) return prefixed(where, std::move(rule).error());
  const auto& [pattern, first] =
      *rules.of_pattern.try_emplace(rule->pattern, Rules::First{rule->options, rule->force, where})
           .first;
  if (first.options != rule->options || first.force != rule->force) {
    return prefixed(where, wrong(fmt::format("contradicts {}, which has the same pattern; keep "
                                             "one of them",
                                             first.where)));
  }
  rules.rules.push_back(std::move(*rule));
  return {};
}

Result<void> add_file(Rules& rules, const std::string& path) {
  CFCK_TRY_ASSIGN(const std::string text, model::read_text(path, kMaxRuleBytes));
  if (text.find('\0') != std::string::npos) {
    return wrong("'" + escaped(path) + "' is not a text file, which --rules needs");
  }
  std::size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    CFCK_TRY(add_rule(rules, line, fmt::format("{}:{}", escaped(path), number)));
  }
  return {};
}

}  // namespace

Result<double> parse_max_error(std::string_view text) {
  return parse_positive(text, "leave it out for lossless");
}

Result<double> parse_bits_per_weight(std::string_view text) {
  return parse_positive(text, "set more than 0 bits per weight");
}

Result<StepPreset> parse_step_preset(std::string_view text) {
  const auto preset = step_preset_from_name(text);
  return preset
             ? Result<StepPreset>(*preset)
             : wrong(fmt::format("'{}' is not one of flat, prior, model, calibrated and feedback",
                                 escaped(text)));
}

Result<Quality> parse_quality(std::string_view text) {
  const auto quality = quality_from_name(text);
  return quality ? Result<Quality>(*quality)
                 : wrong(fmt::format("'{}' is not a quality; choose {}", escaped(text),
                                     alternatives(quality_names())));
}

Result<unsigned> parse_trellis_states(std::string_view text) {
  for (const unsigned states : {1U, 4U, 8U, 64U}) {
    if (text == std::to_string(states)) return states;
  }
  return wrong(fmt::format("'{}' is not one of 1, 4, 8, 64", escaped(text)));
}

Result<std::vector<std::uint8_t>> parse_block(std::string_view text) {
  std::vector<std::uint8_t> sides;
  for (std::string_view rest = text;;) {
    const std::size_t end = std::min(rest.find('x'), rest.size());
    const std::string_view side = rest.substr(0, end);
    unsigned number = 0;
    const auto [last, error] = std::from_chars(side.begin(), side.end(), number);
    if (error != std::errc() || last != side.end() || number < 1 || number > 64) {
      return wrong(
          fmt::format("'{}' is not a block; give sides from 1 to 64, such as 8x8", escaped(text)));
    }
    sides.push_back(static_cast<std::uint8_t>(number));
    if (end == rest.size()) return sides;
    rest.remove_prefix(end + 1);
  }
}

Result<EncodeRule> parse_rule(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return wrong("no colon; a rule is 'PATTERN: option=value, option=value'");
  }
  EncodeRule rule;
  rule.pattern = trimmed(text.substr(0, colon));
  if (rule.pattern.empty()) return wrong("no pattern before the colon; * matches all tensors");
  std::vector<std::string> given;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view option = trimmed(rest.substr(0, end));
    const std::size_t equals = option.find('=');
    std::string name(trimmed(option.substr(0, equals)));
    std::replace(name.begin(), name.end(), '-', '_');
    if (name.empty()) {
      return wrong(fmt::format(
          "an option is missing after the colon or a comma; the options are {}", kOptionNames));
    }
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) value = trimmed(option.substr(equals + 1));
    if (std::find(given.begin(), given.end(), name) != given.end()) {
      return prefixed(escaped(name), wrong("given twice"));
    }
    const auto set = set_rule_option(rule, name, value);
    if (!set) return prefixed(escaped(name), set.error());
    given.push_back(std::move(name));
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  CFCK_TRY(error_target(rule.options));
  CFCK_TRY(error_bound(rule.options));
  return rule;
}

Result<std::vector<EncodeRule>> collect_rules(const std::vector<std::string>& texts,
                                              const std::string& file) {
  Rules rules;
  for (const std::string& text : texts) {
    CFCK_TRY(add_rule(rules, text, "--rule '" + escaped(text) + "'"));
  }
  if (!file.empty()) CFCK_TRY(add_file(rules, file));
  return std::move(rules.rules);
}

}  // namespace cfck::tools
