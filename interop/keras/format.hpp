// What the archives of Keras, and the files made of them, have.
#pragma once

#include <string_view>

namespace cfck::interop {

inline constexpr std::string_view kKerasWeights = "model.weights.h5";
inline constexpr std::string_view kKerasConfig = "config.json";
inline constexpr std::string_view kKerasMetadata = "metadata.json";
// Attachments with this prefix have the other members, by their names.
inline constexpr std::string_view kKerasPrefix = "keras/";

}  // namespace cfck::interop
