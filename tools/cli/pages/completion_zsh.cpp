#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "tools/cli/pages/completion.hpp"
#include "tools/cli/pages/description.hpp"

namespace cfck::tools {
namespace {

using Value = ArgumentDescription::Value;

// Text between single quotes, where _arguments and _describe give colons and brackets a meaning.
std::string zsh_quoted(const std::string& text) {
  std::string shown = "'";
  for (const char c : text) {
    if (c == '\'') {
      shown += "'\\''";
      continue;
    }
    if (c == ':' || c == '[' || c == ']' || c == '\\') shown += '\\';
    shown += c;
  }
  return shown + "'";
}

std::string without_quotes(const std::string& text) { return text.substr(1, text.size() - 2); }

// ":FILE:_files", the end of a specification.
std::string action_of(const ArgumentDescription& argument) {
  switch (argument.value) {
    case Value::kNone:
      return {};
    case Value::kWords:
      return fmt::format(":{}:({})", argument.placeholder, fmt::join(argument.words, " "));
    case Value::kFile:
      return fmt::format(":{}:_files", argument.placeholder);
    case Value::kFolder:
      return fmt::format(":{}:_files -/", argument.placeholder);
    case Value::kText:
      return fmt::format(":{}: ", argument.placeholder);
  }
  return {};
}

std::string option_line(const ArgumentDescription& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    const char* const sign = option.value == Value::kNone ? "" : is_long ? "=" : "+";
    text += fmt::format("    '*{}{}[{}]{}' \\\n", name, sign,
                        without_quotes(zsh_quoted(short_text(option.text))), action_of(option));
  }
  return text;
}

std::string command_function(const CommandDescription& command) {
  std::string text = fmt::format("_cfck_{}() {{\n  _arguments -s -S \\\n", command.name);
  for (const ArgumentDescription& option : command.options) text += option_line(option);
  for (const ArgumentDescription& argument : command.positionals) {
    const bool is_last = &argument == &command.positionals.back();
    text += fmt::format("    '{}{}' \\\n", is_last && argument.value == Value::kFile ? "*" : "",
                        action_of(argument));
  }
  return text.substr(0, text.size() - 3) + "\n}\n\n";
}

constexpr const char* kMainFunction = R"zsh(_cfck() {
  case $service in
    cfck-convert) _cfck_convert; return ;;
    cfck-inspect) _cfck_inspect; return ;;
  esac
  if (( CURRENT == 2 )); then
    _describe -t commands command _cfck_commands
    _arguments '--help[list all commands]' '--version[print the version]'
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  [[ $command == show ]] && command=inspect
  if [[ $command == inspect && CURRENT -gt 2 && -n ${_cfck_of_inspect[(re)$words[2]]} ]]; then
    command=$words[2]
    [[ $command == show ]] && command=inspect
    shift words
    (( CURRENT-- ))
  fi
  (( $+functions[_cfck_$command] )) && _cfck_$command
}

if [[ $funcstack[1] == _cfck ]]; then
  _cfck "$@"
else
  compdef _cfck cfck cfck-convert cfck-inspect
fi
)zsh";

}  // namespace

std::string zsh_completion() {
  std::string script =
      "#compdef cfck cfck-convert cfck-inspect\n"
      "# Completion of cfck for zsh; written by `cfck completion zsh`.\n\n"
      "typeset -ga _cfck_commands _cfck_of_inspect\n_cfck_commands=(\n";
  const auto commands = describe_all();
  for (const CommandDescription& command : commands) {
    script += fmt::format("  '{}:{}'\n", command.name, without_quotes(zsh_quoted(command.summary)));
  }
  script += fmt::format(")\n_cfck_of_inspect=({})\n\n", fmt::join(commands_of_inspect(), " "));
  for (const CommandDescription& command : commands) script += command_function(command);
  return script + kMainFunction;
}

}  // namespace cfck::tools
