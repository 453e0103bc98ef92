// Text for messages: words to choose from, and text that came from a file, which is validated as
// UTF-8 and escaped for display.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text) noexcept;

// For one line of a terminal: control characters, characters that cannot be seen or that
// change how others are shown (zero width, direction, variation selectors, tags, private
// use, spaces other than the ordinary one), backslashes and bytes that are not UTF-8 become \n,
// \x1b, \u202e, \U000e0041 and the like.
std::string escaped(std::string_view text);

inline constexpr std::string_view kHexDigits = "0123456789abcdef";
// Returns two digits for each byte, in order.
template <class Byte>
std::string hexadecimal(std::span<const Byte> bytes) {
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const Byte byte : bytes) {
    digits += kHexDigits[static_cast<unsigned char>(byte) >> 4];
    digits += kHexDigits[static_cast<unsigned char>(byte) & 15];
  }
  return digits;
}

// Returns "a", "a or b", "a, b or c".
std::string alternatives(std::span<const std::string_view> words);

}  // namespace cfck::detail
