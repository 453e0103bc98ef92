// cfck help.
#include "tools/cli/commands.hpp"

namespace cfck::tools {
namespace {

int run_help(const HelpOptions& options, Console& console) {
  const Command* const command = find_command(options.command);
  if (command == nullptr && !options.command.empty()) {
    return console.fail(no_such_command(options.command));
  }
  Choices choices;
  const std::string program = command == nullptr ? "cfck" : "cfck " + options.command;
  console.print(make_parser(command, program, choices)->help());
  return kExitOk;
}

}  // namespace

void set_up_help(CLI::App& app, Choices& choices) {
  app.description("Describe a command, or list all commands.");
  app.add_option("COMMAND", choices.help.command, "The command; none: all of them")
      ->option_text(" ");
  set_footer(app,
             "  cfck help\n"
             "  cfck help convert\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_help(choices.help, console); };
  });
}

}  // namespace cfck::tools
