#include <array>

#include "cfck/options.hpp"
#include "encode/registry/codec_list.hpp"

namespace cfck {
namespace {

// The names of choices; those of ids from 0 on follow "auto". Both arrays have the same order.
constexpr auto kNames = std::to_array<std::string_view>({
    "auto",
    "raw",
#define CFCK_CODEC(id, name) #name,
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
});
constexpr auto kChoices = std::to_array<CodecChoice>({
    CodecChoice::kAuto,
    CodecChoice::kRaw,
#define CFCK_CODEC(id, name) codec_choice(static_cast<CodecId>(id)),
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
});

}  // namespace

std::string_view codec_name(CodecId id) noexcept {
  for (std::size_t i = 1; i < kNames.size(); ++i) {
    if (kChoices[i] == codec_choice(id)) {
      return kNames[i];
    }
  }
  return "unknown";
}

std::optional<CodecChoice> codec_choice_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return kChoices[i];
    }
  }
  return std::nullopt;
}

std::span<const std::string_view> codec_choice_names() noexcept { return kNames; }

}  // namespace cfck
