#include "tools/output/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace cfck::tools {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kWidestTerminal = 10000;  // a wider terminal is a mistake
constexpr std::string_view kEllipsis = "...";

bool continues_character(char c) { return (c & 0xC0) == 0x80; }

// Returns the first `n_columns` characters.
std::string_view first_characters(std::string_view text, std::size_t n_columns) {
  std::size_t end = 0;
  while (end < text.size() && n_columns > 0) {
    ++end;
    while (end < text.size() && continues_character(text[end])) ++end;
    --n_columns;
  }
  return text.substr(0, end);
}

}  // namespace

std::optional<std::size_t> terminal_columns(int descriptor) {
  if (::isatty(descriptor) == 0) return std::nullopt;
  if (const char* const given = std::getenv("COLUMNS"); given != nullptr) {
    const std::string_view text(given);
    std::size_t n_columns = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n_columns);
    const bool is_number = error == std::errc() && stop == text.data() + text.size();
    if (is_number && n_columns > 0) return std::min(n_columns, kWidestTerminal);
  }
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

std::string shortened(std::string_view text, std::size_t n_columns) {
  const std::size_t n_all = columns_of(text);
  if (n_all <= n_columns) return std::string(text);
  const std::size_t n_kept = n_columns - kEllipsis.size();
  const std::size_t n_tail = (n_kept + 1) / 2;  // the end of a name says more than its beginning
  const std::string_view head = first_characters(text, n_kept - n_tail);
  const std::string_view before_tail = first_characters(text, n_all - n_tail);
  return std::string(head).append(kEllipsis).append(text.substr(before_tail.size()));
}

}  // namespace cfck::tools
