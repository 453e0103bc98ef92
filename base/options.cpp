#include "cfck/options.hpp"

namespace cfck {

std::string_view codec_name(CodecId id) noexcept {
  switch (id) {
    case CodecId::kRaw:
      return "raw";
    case CodecId::kLossless:
      return "lossless";
  }
  return "unknown";
}

std::string_view entropy_name(EntropyId id) noexcept {
  switch (id) {
    case EntropyId::kNone:
      return "none";
    case EntropyId::kZstd:
      return "zstd";
  }
  return "unknown";
}

std::optional<CodecChoice> codec_choice_from_name(std::string_view name) noexcept {
  if (name == "auto") {
    return CodecChoice::kAuto;
  }
  if (name == "raw") {
    return CodecChoice::kRaw;
  }
  if (name == "lossless") {
    return CodecChoice::kLossless;
  }
  return std::nullopt;
}

}  // namespace cfck
