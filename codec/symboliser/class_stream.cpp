#include "codec/symboliser/class_stream.hpp"

#include <array>
#include <cstring>

namespace cfck::codec {

namespace {

// The difference that each symbol adds to the class; 0 for all-zero groups.
constexpr auto kDifferences = [] {
  std::array<std::int8_t, kClassEscape> differences{};
  for (unsigned symbol = 0; symbol < kClassAllZero; ++symbol) {
    const int half = static_cast<int>((symbol + 1) / 2);
    differences[symbol] = static_cast<std::int8_t>(symbol % 2 == 0 ? half : -half);
  }
  return differences;
}();

}  // namespace

bool read_class_stream(std::span<const std::uint8_t> symbols, std::uint32_t first_class,
                       std::uint32_t max_class, ByteView escapes, GroupCode* groups,
                       std::uint8_t trailing_zero_bits) {
  // Differences are small, so a class that leaves the range is seen before it wraps around.
  std::uint32_t current = first_class;
  bool in_range = true;
  for (std::size_t g = 0; g < symbols.size(); ++g) {
    const std::uint8_t symbol = symbols[g];
    if (symbol >= kClassEscape) {
      if (symbol > kClassEscape || escapes.size() < 2) {
        return false;
      }
      std::uint16_t exact;
      std::memcpy(&exact, escapes.data(), sizeof(exact));
      escapes = escapes.subspan(sizeof(exact));
      current = exact;
    } else {
      current += static_cast<std::uint32_t>(std::int32_t{kDifferences[symbol]});
    }
    in_range = in_range && current <= max_class;
    groups[g] = {static_cast<std::uint16_t>(current), trailing_zero_bits,
                 symbol == kClassAllZero ? GroupKind::kAllZero : GroupKind::kValues};
  }
  return in_range && escapes.empty();
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
