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
#define CFCK_CODEC_OF_BASE(id, name)
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
});
constexpr auto kChoices = std::to_array<CodecChoice>({
    CodecChoice::kAuto,
    CodecChoice::kRaw,
#define CFCK_CODEC(id, name) codec_choice(static_cast<CodecId>(id)),
#define CFCK_CODEC_OF_BASE(id, name)
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
});

}  // namespace

std::string_view codec_name(CodecId id) noexcept {
  switch (static_cast<unsigned>(id)) {
    case static_cast<unsigned>(CodecId::kRaw):
      return "raw";
#define CFCK_CODEC(number, name) \
  case number:                   \
    return #name;
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
    default:
      return "unknown";
  }
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
