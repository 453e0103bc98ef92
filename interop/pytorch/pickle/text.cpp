#include "interop/pytorch/pickle/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

namespace cfck::interop {
namespace {

constexpr std::size_t kMaxDigits = 4300;
constexpr std::string_view kDecimal = "0123456789";
constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;

// Returns "0x1f" for decimal digits. Quadratic, and so only for as many as kMaxDigits.
std::string hex_of_decimal(std::string_view digits) {
  std::vector<std::uint32_t> words;  // the lowest first
  for (const char digit : digits) {
    std::uint64_t carry = static_cast<std::uint64_t>(digit - '0');
    for (std::uint32_t& word : words) {
      carry += std::uint64_t{word} * 10;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words.push_back(static_cast<std::uint32_t>(carry));
  }
  std::string hex = "0x";
  for (std::size_t i = words.size(); i-- > 0;) {
    char buffer[8];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, words[i], 16).ptr;
    const auto n_digits = static_cast<std::size_t>(end - buffer);
    if (i + 1 < words.size()) hex.append(sizeof buffer - n_digits, '0');
    hex.append(buffer, n_digits);
  }
  return words.empty() ? "0x0" : hex;
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | (point >> shift & 0x3FU)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xC0U | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xE0U | point >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::optional<std::uint32_t> hex_number(std::string_view digits, std::size_t n_digits) {
  std::uint32_t number = 0;
  if (digits.size() < n_digits) return std::nullopt;
  const char* const end = digits.data() + n_digits;
  const auto [at, error] = std::from_chars(digits.data(), end, number, 16);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<char> simple_escape(char letter) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const auto at = kLetters.find(letter);
  if (at == kLetters.npos) return std::nullopt;
  return kMeanings[at];
}

}  // namespace

std::optional<DecimalInteger> decimal_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || digits.size() > kMaxDigits ||
      digits.find_first_not_of(kDecimal) != digits.npos) {
    return std::nullopt;
  }
  DecimalInteger integer;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer.value).ec == std::errc()) {
    integer.fits = true;
    return integer;
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  integer.digits = (negative ? "-" : "") + hex_of_decimal(digits);
  return integer;
}

std::optional<double> decimal_float(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

std::optional<std::string> quoted_text(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.back() == text.front();
  if (!quoted) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    if (text[i] == 'x') {
      const auto byte = hex_number(text.substr(i + 1), 2);
      if (!byte) return std::nullopt;
      out += static_cast<char>(*byte);
      i += 2;
    } else if (const auto meaning = simple_escape(text[i])) {
      out += *meaning;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<std::string> raw_unicode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const bool is_short = rest.starts_with("\\u");
    if (!is_short && !rest.starts_with("\\U")) {
      append_utf8(out, static_cast<unsigned char>(text[i]));
      continue;
    }
    const std::size_t n_digits = is_short ? 4 : 8;
    const auto point = hex_number(rest.substr(2), n_digits);
    if (!point || *point > kMaxCodePoint) return std::nullopt;
    append_utf8(out, *point);
    i += 1 + n_digits;
  }
  return out;
}

}  // namespace cfck::interop
