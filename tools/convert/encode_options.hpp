// Maximum errors, targets and rules, as written on a command line and in files of rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"

namespace cfck::tools {

// Parses a decimal number that is all of the text, whatever the locale: positive and finite. Error:
// kInvalidArgument.
Result<double> parse_max_error(std::string_view text);
Result<double> parse_bits_per_weight(std::string_view text);
// Accepts 1, 4, 8 or 64.
Result<unsigned> parse_trellis_states(std::string_view text);
// Parses "8x8": sides from 1 to 64.
Result<std::vector<std::uint8_t>> parse_block(std::string_view text);
// Accepts "flat", "prior", "model", "calibrated" or "feedback".
Result<StepPreset> parse_step_preset(std::string_view text);
// Accepts "near-lossless", "high", "balanced" or "small".
Result<Quality> parse_quality(std::string_view text);

// Parses "PATTERN: option=value, option=value". The last colon separates; options have none,
// patterns may. Errors: kInvalidArgument, which name the option.
Result<EncodeRule> parse_rule(std::string_view text);

// Returns the rules of the command line, then those of the file: one per line, without blank lines
// and lines that start with #. Two of one pattern must be equal. Errors name the rule or the line;
// kIo, kInvalidArgument.
Result<std::vector<EncodeRule>> collect_rules(const std::vector<std::string>& texts,
                                              const std::string& file);

}  // namespace cfck::tools
