#include "codec/symboliser/bin_stream.hpp"

#include <array>
#include <cstring>

namespace cfck::codec {

namespace {

// The difference that each symbol adds to the bin; 0 for all-zero groups.
constexpr auto kDifferences = [] {
  std::array<std::int8_t, kBinEscape> differences{};
  for (unsigned symbol = 0; symbol < kBinAllZero; ++symbol) {
    const int half = static_cast<int>((symbol + 1) / 2);
    differences[symbol] = static_cast<std::int8_t>(symbol % 2 == 0 ? half : -half);
  }
  return differences;
}();

}  // namespace

bool read_bin_stream(std::span<const std::uint8_t> symbols, std::uint32_t first_bin,
                     std::uint32_t max_bin, ByteView escapes, GroupCode* groups,
                     std::uint8_t trailing_zero_bits) {
  // Differences are small, so a bin that leaves the range is seen before it wraps around.
  std::uint32_t current = first_bin;
  bool in_range = true;
  for (std::size_t g = 0; g < symbols.size(); ++g) {
    const std::uint8_t symbol = symbols[g];
    if (symbol >= kBinEscape) {
      if (symbol > kBinEscape || escapes.size() < 2) {
        return false;
      }
      std::uint16_t exact;
      std::memcpy(&exact, escapes.data(), sizeof(exact));
      escapes = escapes.subspan(sizeof(exact));
      current = exact;
    } else {
      current += static_cast<std::uint32_t>(std::int32_t{kDifferences[symbol]});
    }
    in_range = in_range && current <= max_bin;
    groups[g] = {static_cast<std::uint16_t>(current), trailing_zero_bits,
                 symbol == kBinAllZero ? GroupKind::kAllZero : GroupKind::kValues};
  }
  return in_range && escapes.empty();
}

BinStream write_bin_stream(GroupCode* groups, std::size_t n_groups, std::uint8_t* symbols,
                           std::byte* escapes) {
  BinStream result;
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (groups[g].kind == GroupKind::kValues) {
      result.first_bin = groups[g].scale_bin;
      break;
    }
  }
  std::int32_t before = static_cast<std::int32_t>(result.first_bin);
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (groups[g].kind != GroupKind::kValues) {
      symbols[g] = groups[g].kind == GroupKind::kAllZero ? kBinAllZero : 0;
      groups[g].scale_bin = static_cast<std::uint16_t>(before);
      continue;
    }
    const std::int32_t delta = groups[g].scale_bin - before;
    const std::int32_t coded = delta >= 0 ? 2 * delta : -2 * delta - 1;
    before = groups[g].scale_bin;
    if (coded < static_cast<std::int32_t>(kBinAllZero)) {
      symbols[g] = static_cast<std::uint8_t>(coded);
      continue;
    }
    symbols[g] = kBinEscape;
    std::memcpy(escapes + 2 * result.n_escapes, &groups[g].scale_bin, 2);
    ++result.n_escapes;
  }
  return result;
}

}  // namespace cfck::codec
