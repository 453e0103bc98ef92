// Commands described as data: manual pages and completion are written from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/commands.hpp"

namespace cfck::tools {

struct ArgumentDescription {
  enum class Value { kNone, kText, kWords, kFile, kFolder };

  std::vector<std::string> names;  // "-q", "--quiet"; none for a positional argument
  std::string placeholder;         // of its value, or the name of a positional argument: "FILE"
  std::string group;               // the heading of the options among which it is
  std::string text;
  Value value = Value::kNone;
  std::vector<std::string> words;  // for kWords
};

struct CommandDescription {
  std::string name;     // "convert"; empty: the program itself
  std::string program;  // "cfck convert"
  std::string summary;
  std::string text;                // each line is a paragraph
  std::vector<std::string> usage;  // what follows the program, for each way to call it
  std::vector<ArgumentDescription> positionals;
  std::vector<ArgumentDescription> options;
  std::string examples;  // lines
};

// `command` is nullptr for the program itself.
CommandDescription describe(const Command* command);
// Returns descriptions of all commands but those that are other names of one.
std::vector<CommandDescription> describe_all();

// Returns the beginning of a description that tells the most of it, without its end: what has room
// beside an option in a menu.
std::string short_text(const std::string& text);

}  // namespace cfck::tools
