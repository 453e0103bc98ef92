#include "base/glob.hpp"

#include <cstddef>
#include <cstdint>

namespace cfck::detail {
namespace {

// Above all code points: bytes that are not UTF-8.
constexpr std::uint32_t kStrayByte = 0x110000;

// Takes off the first character; the text is not empty.
std::uint32_t take_character(std::string_view& text) noexcept {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  std::uint32_t character = length == 1 ? first : first & (0x7fU >> length);
  bool valid = length != 0;
  for (std::size_t i = 1; i < length; ++i) {
    valid = valid && (byte(i) & 0xc0) == 0x80;
    character = character << 6 | (byte(i) & 0x3f);
  }
  text.remove_prefix(valid ? length : 1);
  return valid ? character : kStrayByte + first;
}

// Returns where brackets that begin at the start of `pattern` end, or npos.
std::size_t end_of_brackets(std::string_view pattern) noexcept {
  const std::size_t first = pattern.size() > 1 && pattern[1] == '!' ? 2 : 1;
  return first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
}

bool is_in_brackets(std::string_view inside, std::uint32_t character) noexcept {
  const bool negated = inside[0] == '!';
  inside.remove_prefix(negated ? 1 : 0);
  bool found = false;
  while (!inside.empty()) {
    const std::uint32_t low = take_character(inside);
    std::uint32_t high = low;
    if (inside.size() > 1 && inside[0] == '-') {
      inside.remove_prefix(1);
      high = take_character(inside);
    }
    found = found || (low <= character && character <= high);
  }
  return found != negated;
}

// True if one character matches the first element of the pattern, which is taken off.
bool take_element(std::string_view& pattern, std::uint32_t character) noexcept {
  if (pattern[0] == '[') {
    const std::size_t end = end_of_brackets(pattern);
    if (end != std::string_view::npos) {
      const std::string_view inside = pattern.substr(1, end - 1);
      pattern.remove_prefix(end + 1);
      return is_in_brackets(inside, character);
    }
  }
  const bool any = pattern[0] == '?';
  return take_character(pattern) == character || any;
}

bool matches_elements(std::string_view pattern, std::string_view name) noexcept {
  // After the last `*`: what follows it, and where that was tried last. An earlier
  // `*` never has to give back what it took.
  std::string_view after_star;
  std::string_view tried;
  bool has_star = false;
  while (!name.empty()) {
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      after_star = pattern;
      tried = name;
      has_star = true;
      continue;
    }
    std::string_view rest = name;
    const std::uint32_t character = take_character(rest);
    if (!pattern.empty() && take_element(pattern, character)) {
      name = rest;
      continue;
    }
    if (!has_star) {
      return false;
    }
    take_character(tried);
    pattern = after_star;
    name = tried;
  }
  return pattern.find_first_not_of('*') == std::string_view::npos;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view name) noexcept {
  return pattern == name || matches_elements(pattern, name);
}

}  // namespace cfck::detail
