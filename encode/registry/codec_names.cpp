#include <array>
#include <utility>

#include "cfck/options.hpp"
#include "encode/registry/codec_list.hpp"

namespace cfck {
namespace {

struct NamedCodec {
  std::uint8_t id;
  std::string_view name;
};

constexpr auto kNamed = std::to_array<NamedCodec>({
    {0, "raw"},
#define CFCK_CODEC(id, name) {id, #name},
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
});

}  // namespace

std::string_view codec_name(CodecId id) noexcept {
  for (const NamedCodec& codec : kNamed) {
    if (codec.id == static_cast<std::uint8_t>(id)) {
      return codec.name;
    }
  }
  return "unknown";
}

std::optional<CodecChoice> codec_choice_from_name(std::string_view name) noexcept {
  if (name == "auto") {
    return CodecChoice::kAuto;
  }
  for (const NamedCodec& codec : kNamed) {
    if (codec.name == name) {
      return codec_choice(static_cast<CodecId>(codec.id));
    }
  }
  return std::nullopt;
}

}  // namespace cfck
