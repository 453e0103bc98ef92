#include "base/text.hpp"

#include <cstdint>
#include <cstdio>

namespace cfck {
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

bool needs_escape(std::uint32_t value) noexcept {
  return value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0x061C || value == 0x200E ||
         value == 0x200F || (value >= 0x2028 && value <= 0x202E) ||
         (value >= 0x2066 && value <= 0x2069) || value == 0xFEFF;
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
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(point.value));
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

}  // namespace cfck
