#include "codec/symboliser/class_stream.hpp"

#include <cstring>

namespace cfck::codec {

bool read_class_stream(std::span<const std::uint8_t> symbols, std::uint32_t first_class,
                       std::uint32_t max_class, ByteView escapes, GroupCode* groups) {
  std::int64_t current = first_class;
  for (std::size_t g = 0; g < symbols.size(); ++g) {
    const std::uint8_t symbol = symbols[g];
    groups[g].kind = symbol == kClassAllZero ? GroupKind::kAllZero : GroupKind::kValues;
    if (symbol > kClassEscape) {
      return false;
    }
    if (symbol == kClassEscape) {
      if (escapes.size() < 2) {
        return false;
      }
      std::uint16_t exact;
      std::memcpy(&exact, escapes.data(), sizeof(exact));
      escapes = escapes.subspan(sizeof(exact));
      current = exact;
    } else if (symbol != kClassAllZero) {
      current += symbol % 2 == 0 ? symbol / 2 : -(symbol + 1) / 2;
    }
    if (current < 0 || current > max_class) {
      return false;
    }
    groups[g].scale_class = static_cast<std::uint16_t>(current);
  }
  return escapes.empty();
}

ClassStream write_class_stream(GroupCode* groups, std::size_t n_groups, std::uint8_t* symbols,
                               std::byte* escapes) {
  ClassStream result;
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (groups[g].kind == GroupKind::kValues) {
      result.first_class = groups[g].scale_class;
      break;
    }
  }
  std::int32_t before = static_cast<std::int32_t>(result.first_class);
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (groups[g].kind != GroupKind::kValues) {
      symbols[g] = groups[g].kind == GroupKind::kAllZero ? kClassAllZero : 0;
      groups[g].scale_class = static_cast<std::uint16_t>(before);
      continue;
    }
    const std::int32_t delta = groups[g].scale_class - before;
    const std::int32_t coded = delta >= 0 ? 2 * delta : -2 * delta - 1;
    before = groups[g].scale_class;
    if (coded < static_cast<std::int32_t>(kClassAllZero)) {
      symbols[g] = static_cast<std::uint8_t>(coded);
      continue;
    }
    symbols[g] = kClassEscape;
    std::memcpy(escapes + 2 * result.n_escapes, &groups[g].scale_class, 2);
    ++result.n_escapes;
  }
  return result;
}

}  // namespace cfck::codec
