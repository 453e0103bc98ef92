#include "tools/report/text/page_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace cfck::tools::report {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

constexpr std::string_view kDullEnd = ".weight";

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

// Characters that Markdown leaves alone inside a code span in the cell of a table.
bool is_plain(char c) {
  return static_cast<unsigned char>(c) >= 0x80 ||
         (c >= ' ' && std::string_view("`|<>&\\").find(c) == std::string_view::npos);
}

bool is_word(char c) {
  return static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') ||
         (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view(" .,;:%/+-()=").find(c) != std::string_view::npos;
}

// Writes characters as numeric references, which Markdown never takes as its own.
template <class Keep>
std::string referenced(std::string_view text, const Keep& keep) {
  std::string result;
  for (const char c : text) {
    if (keep(c)) {
      result += c;
    } else {
      result += fmt::format("&#{};", static_cast<unsigned char>(c));
    }
  }
  return result;
}

}  // namespace

std::string html(std::string_view text) {
  std::string result;
  for (const char c : detail::escaped(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string markdown_code(std::string_view text) {
  const std::string shown = detail::escaped(text);
  const bool spaced = shown.empty() || shown.front() == ' ' || shown.back() == ' ';
  if (!spaced && std::all_of(shown.begin(), shown.end(), is_plain)) return "`" + shown + "`";
  return "<code>" + referenced(shown, is_word) + "</code>";
}

std::string markdown_text(std::string_view text) {
  // A word at the beginning of a line may be a list or a heading; a colon may begin an address.
  return referenced(detail::escaped(text),
                    [](char c) { return is_word(c) && c != ':' && c != '+' && c != '='; });
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::size_t length = length_of(text);
  if (length <= most) return std::string(text);
  std::size_t drop = length - most + 1;
  std::size_t at = 0;
  while (at < text.size() && (drop > 0 || is_continuation(text[at]))) {
    if (!is_continuation(text[at])) --drop;
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
  }
  return "…" + std::string(text.substr(at));
}

std::string label(std::string_view name, std::size_t most) {
  if (length_of(name) <= most) return std::string(name);
  if (name.ends_with(kDullEnd)) name.remove_suffix(kDullEnd.size());
  // A number alone says little.
  const auto is_telling = [](std::string_view part) {
    return part.find_first_not_of("0123456789") != std::string_view::npos;
  };
  std::string_view rest = name;
  while (length_of(rest) > most) {
    const auto end = rest.find_first_of("./");
    if (end == std::string_view::npos) return shortened(rest, most);
    if (!is_telling(rest.substr(end + 1))) return shortened(rest, most);
    rest.remove_prefix(end + 1);
  }
  return std::string(rest);
}

std::string decibels(double number) {
  if (std::isnan(number)) return "-";
  if (std::isinf(number)) return number < 0 ? "exact" : "all lost";
  return fmt::format("{:.1f} dB", number);
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string counted(std::uint64_t number, std::string_view one, std::string_view many) {
  return grouped(number) + " " + std::string(number == 1 ? one : many);
}

std::string ratio(double value) {
  return value == 0 ? "-" : fmt::format("{:.{}f}×", value, value < 10 ? 2 : 1);
}

std::string percent(double part, double whole) {
  if (whole == 0) return "-";
  const double share = 100 * part / whole;
  return share > 0 && share < 0.1 ? "under 0.1 %" : fmt::format("{:.1f} %", share);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

void Page::add(std::string_view text) {
  pending_ += text;
  n_bytes_ += text.size();
  if (pending_.size() >= kFlushBytes) flush();
}

void Page::flush() {
  if (state_) state_ = write_(pending_);
  pending_.clear();
}

Result<std::uint64_t> Page::finish() {
  flush();
  CFCK_TRY(state_);
  return n_bytes_;
}

}  // namespace cfck::tools::report
