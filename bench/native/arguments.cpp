#include "bench/native/arguments.hpp"

#include <cstdlib>

namespace cfck::bench {

bool take_option(std::string_view name, const char* value, Arguments& arguments) {
  if (name == "--rel") {
    arguments.rel_bound = std::strtod(value, nullptr);
    return arguments.rel_bound > 0;
  }
  if (name == "--repetitions") {
    arguments.repetitions = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    return arguments.repetitions > 0;
  }
  if (name == "--entropy") {
    const auto entropy = entropy_choice_from_name(value);
    arguments.entropy = entropy.value_or(kDefaultEntropy);
    return entropy.has_value();
  }
  const auto level = encode_level_from_name(value);
  arguments.level = level.value_or(EncodeLevel::kDefault);
  return name == "--level" && level.has_value();
}

}  // namespace cfck::bench
