// Names of formats in sentences.
#pragma once

#include <string>
#include <string_view>

namespace cfck::model {

// Returns "a safetensors", "an npy" for the name of a format: letters that are spelt out begin with
// a vowel.
inline std::string with_article(std::string_view format) {
  const bool is_spelt = format.starts_with("np") || format == "hdf5";
  return (is_spelt ? "an " : "a ") + std::string(format);
}

}  // namespace cfck::model
