#include "tools/cli/pages/description.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "tools/cli/help_formatter.hpp"
#include "tools/cli/shrink.hpp"
#include "tools/output/terminal.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kShortColumns = 60;

std::vector<std::string> words_of(CLI::Option* option) {
  std::string list;
  try {
    list = option->get_validator(kWordsCheck)->get_description();
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

ArgumentDescription::Value value_of(const std::string& placeholder) {
  using enum ArgumentDescription::Value;
  static constexpr std::string_view kFiles[] = {"FILE", "NEW", "LIST", "IN", "OUT", "A", "B"};
  if (placeholder == "FOLDER") return kFolder;
  const bool is_file =
      std::find(std::begin(kFiles), std::end(kFiles), placeholder) != std::end(kFiles);
  return is_file ? kFile : kText;
}

ArgumentDescription describe(CLI::Option* option) {
  ArgumentDescription argument;
  for (const std::string& name : option->get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option->get_lnames()) argument.names.push_back("--" + name);
  argument.text = option->get_description();
  argument.group = option->get_group();
  const bool is_positional = option->get_positional();
  if (!is_positional && option->get_items_expected_max() == 0) return argument;  // a flag
  argument.placeholder = is_positional ? option->get_name(true, false) : option->get_option_text();
  argument.words = words_of(option);
  argument.value =
      argument.words.empty() ? value_of(argument.placeholder) : ArgumentDescription::Value::kWords;
  return argument;
}

}  // namespace

CommandDescription describe(const Command* command) {
  CommandDescription description;
  description.program = "cfck";
  if (command != nullptr) {
    description.name = command->name;
    description.program += " " + description.name;
    description.summary = command->summary;
  }
  Choices choices;
  const auto app = make_parser(command, description.program, choices);
  if (description.name == "shrink") describe_shrink(*app);
  const HelpPage& page = help_page(*app);
  description.text = app->get_description();
  if (!page.details.empty()) description.text += "\n" + page.details;
  description.usage = usage_of(*app);
  description.examples = page.examples + page.more_examples;
  for (const std::string& group : groups_of(*app)) {
    for (CLI::Option* option :
         app->get_options([&](CLI::Option* any) { return any->get_group() == group; })) {
      auto& arguments = option->get_positional() ? description.positionals : description.options;
      arguments.push_back(describe(option));
    }
  }
  return description;
}

std::vector<CommandDescription> describe_all() {
  std::vector<CommandDescription> all;
  for (const Command& command : all_commands()) {
    if (!command.is_alias()) all.push_back(describe(&command));
  }
  return all;
}

std::string short_text(const std::string& text) {
  std::string beginning = text;
  for (const std::string_view end : {". ", "; ", ": ", " ("}) {
    beginning = beginning.substr(0, beginning.find(end));
  }
  if (columns_of(beginning) <= kShortColumns) return beginning;
  const std::size_t space = beginning.rfind(' ', kShortColumns - 3);
  return beginning.substr(0, space == std::string::npos ? 0 : space) + "...";
}

}  // namespace cfck::tools
