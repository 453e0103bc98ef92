#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "tools/cli/pages/completion.hpp"
#include "tools/cli/pages/description.hpp"

namespace cfck::tools {
namespace {

using Value = ArgumentDescription::Value;

std::string fish_quoted(const std::string& text) {
  std::string shown = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') shown += '\\';
    shown += c;
  }
  return shown + "'";
}

// Returns the words or files that may follow the option.
std::string value_of(const ArgumentDescription& argument) {
  switch (argument.value) {
    case Value::kNone:
      return {};
    case Value::kWords:
      return fmt::format(" -x -a {}",
                         fish_quoted(fmt::format("{}", fmt::join(argument.words, " "))));
    case Value::kFile:
      return " -r -F";
    case Value::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Value::kText:
      return " -x";
  }
  return {};
}

// `start` says where the lines apply.
void append_options(std::string& script, const std::string& start,
                    const CommandDescription& command) {
  for (const ArgumentDescription& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    script += fmt::format("{}{}{} -d {}\n", start, names, value_of(option),
                          fish_quoted(short_text(option.text)));
  }
  for (const ArgumentDescription& argument : command.positionals) {
    if (argument.value != Value::kWords) continue;
    script += fmt::format("{} -f -a {}\n", start,
                          fish_quoted(fmt::format("{}", fmt::join(argument.words, " "))));
  }
}

}  // namespace

std::string fish_completion() {
  std::string script = "# Completion of cfck for fish; written by `cfck completion fish`.\n\n";
  const auto commands = describe_all();
  for (const CommandDescription& command : commands) {
    script += fmt::format("complete -c cfck -n __fish_use_subcommand -f -a {} -d {}\n",
                          command.name, fish_quoted(command.summary));
  }
  append_options(script, "complete -c cfck -n __fish_use_subcommand", describe(nullptr));
  for (const CommandDescription& command : commands) {
    const std::string names = command.name == "inspect" ? "inspect show" : command.name;
    append_options(script,
                   fmt::format("complete -c cfck -n '__fish_seen_subcommand_from {}'", names),
                   command);
    if (command.name != "convert" && command.name != "inspect") continue;
    append_options(script, fmt::format("complete -c cfck-{}", command.name), command);
  }
  return script;
}

}  // namespace cfck::tools
