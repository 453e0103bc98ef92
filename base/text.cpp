#include "base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace cfck::detail {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t n_bytes = 0;  // 0: no valid sequence starts here
};

CodePoint next_code_point(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return {first, 1};
  }
  const std::size_t n_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < n_bytes) {
    return {};
  }
  std::uint32_t value = first & (0xFFu >> (n_bytes + 1));
  for (std::size_t i = 1; i < n_bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return {};
    }
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[n_bytes] || value > 0x10FFFF || surrogate) {
    return {};
  }
  return {value, n_bytes};
}

struct Range {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

// Characters that are not visible, or that change how others are shown: general categories
// Cc, Cf, Co, Zl, Zp and Zs (except the space) and the property Default_Ignorable_Code_Point,
// joined where they meet. Source: UnicodeData.txt and DerivedCoreProperties.txt of Unicode 15.1.
constexpr Range kInvisible[] = {
    {0x0000, 0x001F},   {0x007F, 0x00A0},   {0x00AD, 0x00AD},   {0x034F, 0x034F},
    {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},
    {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x115F, 0x1160},   {0x1680, 0x1680},
    {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x2000, 0x200F},   {0x2028, 0x202F},
    {0x205F, 0x206F},   {0x3000, 0x3000},   {0x3164, 0x3164},   {0xE000, 0xF8FF},
    {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF}};

bool needs_escape(std::uint32_t value) noexcept {
  const auto* const range =
      std::lower_bound(std::begin(kInvisible), std::end(kInvisible), value,
                       [](const Range& r, std::uint32_t point) { return r.last < point; });
  return range != std::end(kInvisible) && range->first <= value;
}

}  // namespace

bool valid_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t n_bytes = next_code_point(text).n_bytes;
    if (n_bytes == 0) {
      return false;
    }
    text.remove_prefix(n_bytes);
  }
  return true;
}

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char buffer[12];
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (point.n_bytes == 0 || (needs_escape(point.value) && point.value < 0x80)) {
      const char first = text[0];
      if (first == '\n' || first == '\t' || first == '\r') {
        out += first == '\n' ? "\\n" : first == '\t' ? "\\t" : "\\r";
      } else {
        std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(first));
        out += buffer;
      }
      text.remove_prefix(1);
      continue;
    }
    if (needs_escape(point.value)) {
      std::snprintf(buffer, sizeof buffer, point.value > 0xFFFF ? "\\U%08x" : "\\u%04x",
                    static_cast<unsigned>(point.value));
      out += buffer;
    } else if (point.value == '\\') {
      out += "\\\\";
    } else {
      out.append(text.substr(0, point.n_bytes));
    }
    text.remove_prefix(point.n_bytes);
  }
  return out;
}

std::string alternatives(std::span<const std::string_view> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "" : i + 1 < words.size() ? ", " : " or ";
    out += words[i];
  }
  return out;
}

}  // namespace cfck::detail
