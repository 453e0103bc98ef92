#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/pages/completion.hpp"
#include "tools/cli/pages/description.hpp"

namespace cfck::tools {
namespace {

using Value = ArgumentDescription::Value;

// Names of files are left to readline, which quotes them whatever they are. Words are constants.
constexpr const char* kHead =
    R"bash(# Completion of cfck for bash; written by `cfck completion bash`.

_cfck_words() {
  local word IFS=$' \t\n'
  COMPREPLY=()
  for word in $1; do
    [[ $word == "$2"* ]] && COMPREPLY+=("$word")
  done
  # Nothing else than these words.
  compopt +o default +o bashdefault 2>/dev/null
}

_cfck() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} first=1 command
  COMPREPLY=()
  # "--codec=raw" is three words.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case ${COMP_WORDS[0]##*/} in
    cfck-convert) command=convert ;;
    cfck-inspect) command=inspect ;;
    *)
      if ((COMP_CWORD == 1)); then
        _cfck_words "$_cfck_commands" "$cur"
        return
      fi
      command=${COMP_WORDS[1]}
      first=2
      ;;
  esac
  if [[ $command == inspect && " $_cfck_of_inspect " == *" ${COMP_WORDS[first]} "* ]] &&
    ((COMP_CWORD > first)); then
    command=${COMP_WORDS[first]}
  fi
)bash";

constexpr const char* kEndOfScript = R"bash(}

complete -o bashdefault -o default -F _cfck cfck cfck-convert cfck-inspect
)bash";

// Returns the case for the word that follows an option with a value.
std::string value_case(const ArgumentDescription& option) {
  std::string action;
  switch (option.value) {
    case Value::kNone:
      return {};
    case Value::kWords:
      action = fmt::format("_cfck_words '{}' \"$cur\"; return", fmt::join(option.words, " "));
      break;
    case Value::kFile:
      action = "return";  // files, by default
      break;
    case Value::kFolder:
      action = "compopt +o default +o bashdefault -o dirnames; return";
      break;
    case Value::kText:
      action = "_cfck_words '' \"$cur\"; return";
      break;
  }
  return fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"), action);
}

std::string command_case(const CommandDescription& command, const std::string& names) {
  std::string text = fmt::format("    {})\n      case $prev in\n", names);
  std::string options;
  for (const ArgumentDescription& option : command.options) {
    text += value_case(option);
    options += fmt::format("{}{}", options.empty() ? "" : " ", fmt::join(option.names, " "));
  }
  text += fmt::format("      esac\n      [[ $cur == -* ]] && _cfck_words '{}' \"$cur\"\n", options);
  // A bare minus is a file, standard input or output.
  if (!command.positionals.empty() && command.positionals.front().value == Value::kWords) {
    text += fmt::format("      [[ $cur == -* ]] || _cfck_words '{}' \"$cur\"\n",
                        fmt::join(command.positionals.front().words, " "));
  }
  return text + "      ;;\n";
}

}  // namespace

std::string bash_completion() {
  std::string commands = "--help --version";
  for (const Command& command : all_commands()) commands += fmt::format(" {}", command.name);
  std::string script = kHead;
  const std::string variables = fmt::format("\n_cfck_commands='{}'\n_cfck_of_inspect='{}'\n",
                                            commands, fmt::join(commands_of_inspect(), " "));
  script.insert(script.find("\n_cfck_words"), variables);
  script += "  case $command in\n";
  for (const CommandDescription& command : describe_all()) {
    script += command_case(command, command.name == "inspect" ? "inspect|show" : command.name);
  }
  return script + "  esac\n" + kEndOfScript;
}

}  // namespace cfck::tools
