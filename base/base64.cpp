#include "base/base64.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cfck::detail {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t n_bytes = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < n_bytes ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= n_bytes ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::string_view digits = text.substr(at, 4);
    if (at + 4 == text.size()) {
      for (int i = 0; i < 2 && digits.back() == '='; ++i) digits.remove_suffix(1);
    }
    std::uint32_t bits = 0;
    for (const char digit : digits) {
      const std::size_t value = kDigits.find(digit);
      if (value == std::string_view::npos) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(value);
    }
    bits <<= 6 * (4 - digits.size());
    for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
      bytes += static_cast<char>(bits >> (16 - 8 * i) & 255);
    }
  }
  // Bits behind the last byte must be zero: one text for each string of bytes.
  if (base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace cfck::detail
