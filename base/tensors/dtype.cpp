#include "cfck/dtype.hpp"

#include <array>

namespace cfck {
namespace {

struct Traits {
  std::string_view name;
  unsigned bits;
};

// Indexed by wire value, from 1 on.
constexpr std::array<Traits, 22> kTraits = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

const Traits* find_traits(DType dtype) noexcept {
  const auto value = static_cast<std::size_t>(dtype);
  return value >= 1 && value <= kTraits.size() ? &kTraits[value - 1] : nullptr;
}

}  // namespace

unsigned bits_per_element(DType dtype) noexcept {
  const Traits* traits = find_traits(dtype);
  return traits != nullptr ? traits->bits : 0;
}

std::string_view dtype_name(DType dtype) noexcept {
  const Traits* traits = find_traits(dtype);
  return traits != nullptr ? traits->name : "UNKNOWN";
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].name == name) {
      return static_cast<DType>(i + 1);
    }
  }
  return std::nullopt;
}

}  // namespace cfck
