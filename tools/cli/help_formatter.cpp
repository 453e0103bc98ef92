#include "tools/cli/help_formatter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

#include "tools/output/terminal.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kNameColumns = 30;
constexpr std::size_t kCommandColumns = 14;
constexpr std::size_t kMinPageColumns = 50;
constexpr std::size_t kMaxPageColumns = 100;  // longer lines are hard to read
constexpr std::size_t kDefaultPageColumns = 80;

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
    : n_columns_(std::clamp(terminal_columns(STDOUT_FILENO).value_or(kDefaultPageColumns),
                            kMinPageColumns, kMaxPageColumns)) {
  column_width(kNameColumns);
  label("Positionals", "Arguments");
}

// Each line of the text is a paragraph, before which an empty line stands.
std::string HelpFormatter::paragraphs(const std::string& text) const {
  std::string broken;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); broken += '\n') {
    broken += '\n';
    append_words(broken, line, 0, 0, n_columns_);
  }
  return broken;
}

std::string HelpFormatter::entry(const std::string& name, const std::string& description,
                                 std::size_t indent) const {
  std::string text = "  " + name;
  if (text.size() + 1 > indent) {
    text.append("\n").append(indent, ' ');
  } else {
    text.append(indent - text.size(), ' ');
  }
  append_words(text, description, indent, indent, n_columns_);
  return text + "\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  // CLI11 lists the names as "-o,--output".
  std::string name = make_option_name(option, is_positional);
  if (const std::size_t comma = name.find(','); comma != std::string::npos) {
    name.insert(comma + 1, " ");
  }
  return entry(name + make_option_opts(option), make_option_desc(option), kNameColumns);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description(), kCommandColumns);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string text;
  for (const std::string& way : usage_of(*app)) {
    text += fmt::format("{}{} {}\n", text.empty() ? "Usage: " : "       ", name, way);
  }
  return text;
}

std::string HelpFormatter::first_options(const CLI::App& app) const {
  const auto is_help = [](const CLI::Option* option) { return option->get_group() == kHelpGroup; };
  std::vector<const CLI::Option*> options;
  for (const std::string& name : page.first_options) options.push_back(app.get_option(name));
  if (options.empty()) {
    options = app.get_options(
        [&](const CLI::Option* option) { return option->nonpositional() && !is_help(option); });
  }
  for (const CLI::Option* option : app.get_options(is_help)) options.push_back(option);
  return make_group("Options", false, options);
}

std::string HelpFormatter::all_options(const CLI::App& app) const {
  std::string text;
  for (const std::string& group : groups_of(app)) {
    const auto options = app.get_options([&](const CLI::Option* option) {
      return option->nonpositional() && option->get_group() == group;
    });
    if (!options.empty()) text += make_group(group, false, options);
  }
  return text;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  const bool is_all = mode == CLI::AppFormatMode::All;
  std::string text = make_usage(app, std::move(name));
  text += paragraphs(app->get_description());
  if (is_all) text += paragraphs(page.details);
  text += make_positionals(app);
  text += is_all ? all_options(*app) : first_options(*app);
  text += make_subcommands(app, CLI::AppFormatMode::Normal);
  text += "\nExamples:\n" + page.examples;
  if (is_all) text += page.more_examples;
  return text + "\n" + make_footer(app);
}

HelpPage& help_page(const CLI::App& app) {
  return std::dynamic_pointer_cast<HelpFormatter>(app.get_formatter())->page;
}

std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  // The options that all commands have come last.
  static constexpr std::string_view kLast[] = {kResourcesGroup, kMessagesGroup, kHelpGroup};
  const auto place = [](const std::string& group) {
    const auto* const found = std::find(std::begin(kLast), std::end(kLast), group);
    return found == std::end(kLast) ? -1 : found - std::begin(kLast);
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return groups;
}

void set_group(CLI::App& app, const std::string& group) { app.option_defaults()->group(group); }

std::vector<std::string> usage_of(const CLI::App& app) {
  std::vector<std::string> ways = help_page(app).usage;
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
