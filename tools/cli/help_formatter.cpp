#include "tools/cli/help_formatter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "tools/output/terminal.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kNameColumns = 30;
constexpr std::size_t kMinPageColumns = 50;
constexpr std::size_t kMaxPageColumns = 100;  // longer lines are hard to read

// Appends the words to `text`, whose last line has `column` columns, in lines that begin at
// `indent`.
void append_words(std::string& text, std::string_view words, std::size_t column, std::size_t indent,
                  std::size_t n_columns) {
  bool is_first = true;
  while (!words.empty()) {
    const std::size_t length = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, length);
    words.remove_prefix(std::min(length + 1, words.size()));
    const std::size_t n_word = columns_of(word);
    if (!is_first && column + 1 + n_word > n_columns) {
      text.append("\n").append(indent, ' ');
      column = indent;
      is_first = true;
    }
    if (!is_first) text += ' ';
    text += word;
    column += n_word + (is_first ? 0 : 1);
    is_first = false;
  }
}

}  // namespace

HelpFormatter::HelpFormatter()
    : n_columns_(std::clamp(terminal_columns(STDOUT_FILENO).value_or(kMaxPageColumns),
                            kMinPageColumns, kMaxPageColumns)) {
  column_width(kNameColumns);
}

std::string HelpFormatter::entry(const std::string& name, const std::string& description) const {
  std::string text = "  " + name;
  if (text.size() + 1 > kNameColumns) {
    text.append("\n").append(kNameColumns, ' ');
  } else {
    text.append(kNameColumns - text.size(), ' ');
  }
  append_words(text, description, kNameColumns, kNameColumns, n_columns_);
  return text + "\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string text;
  for (const std::string& way : usage_of(*app)) {
    text += fmt::format("{}{} {}\n", text.empty() ? "Usage: " : "       ", name, way);
  }
  return text;
}

void set_usage(CLI::App& app, std::vector<std::string> ways) {
  std::dynamic_pointer_cast<HelpFormatter>(app.get_formatter())->ways_ = std::move(ways);
}

std::vector<std::string> usage_of(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<HelpFormatter>(app.get_formatter());
  std::vector<std::string> ways = formatter->ways_;
  if (ways.empty()) {
    std::string way;
    for (const CLI::Option* option : app.get_options(
             [](const CLI::Option* candidate) { return candidate->get_positional(); })) {
      const std::string name =
          option->get_name(true, false) + (option->get_items_expected_max() > 1 ? "..." : "");
      way += option->get_required() ? " " + name : " [" + name + "]";
    }
    if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) way += " COMMAND";
    ways.push_back(way.empty() ? way : way.substr(1));
  }
  for (std::string& way : ways) way = way.empty() ? "[OPTIONS]" : "[OPTIONS] " + way;
  return ways;
}

}  // namespace cfck::tools
