// The commands of the program: everything else about them (help, manual pages, completion) follows
// from this list and from what each sets up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cfck/status.hpp"
#include "tools/cli/arguments.hpp"

namespace cfck::tools {

struct Command {
  const char* name;
  const char* summary;  // empty: another name for the command before
  void (*set_up)(CLI::App&, Choices&);

  bool is_alias() const { return *summary == '\0'; }
};

std::span<const Command> all_commands();
// Returns nullptr where there is none.
const Command* find_command(std::string_view name);
// Returns the commands that `cfck inspect` takes as its first word.
std::span<const std::string_view> commands_of_inspect();
// Names the commands that may have been meant.
Error no_such_command(std::string_view wanted);

// Returns the parser of a command, or of the program itself where that is nullptr. `program` is
// what was called: "cfck convert".
std::unique_ptr<CLI::App> make_parser(const Command* command, const std::string& program,
                                      Choices& choices);

}  // namespace cfck::tools
