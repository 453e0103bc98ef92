// cfck help and cfck completion: what the program says about itself.
#include <fmt/format.h>

#include "tools/cli/commands.hpp"
#include "tools/cli/pages/completion.hpp"
#include "tools/cli/pages/man_page.hpp"
#include "tools/cli/shrink.hpp"

namespace cfck::tools {
namespace {

int run_help(const HelpOptions& options, Console& console) {
  if (options.list) {
    for (const Command& command : all_commands()) {
      if (!command.is_alias()) console.print(fmt::format("{}\n", command.name));
    }
    return kExitOk;
  }
  const Command* const command = find_command(options.command);
  if (command == nullptr && !options.command.empty()) {
    return console.fail(no_such_command(options.command));
  }
  if (options.man) {
    console.print(man_page(describe(command)));
    return kExitOk;
  }
  // Python has the options of this one.
  if (options.command == "shrink") {
    return run_shrink({options.all ? "--help-all" : "--help"}, console);
  }
  Choices choices;
  const std::string program = command == nullptr ? "cfck" : "cfck " + options.command;
  const auto mode = options.all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal;
  console.print(make_parser(command, program, choices)->help("", mode));
  return kExitOk;
}

int run_completion(const CompletionOptions& options, Console& console) {
  const auto script = completion_script(options.shell);
  if (!script) return console.fail(script.error());
  console.print(*script);
  return kExitOk;
}

std::string command_names() {
  std::string names;
  for (const Command& command : all_commands()) {
    names += fmt::format("{}{}", names.empty() ? "" : ",", command.name);
  }
  return names;
}

}  // namespace

void set_up_help(CLI::App& app, Choices& choices) {
  app.description("Describe a command, or list all commands.");
  suggest_words(app.add_option("COMMAND", choices.help.command, "The command; none: all of them")
                    ->option_text(" "),
                command_names());
  CLI::Option* const all =
      app.add_flag("--all", choices.help.all, "Describe every option, as --help-all does")
          ->option_text(" ");
  CLI::Option* const man =
      app.add_flag("--man", choices.help.man, "Print the manual page, for man -l -")
          ->excludes(all)
          ->option_text(" ");
  app.add_flag("--list", choices.help.list, "Print the names of the commands, each on a line")
      ->excludes(all, man)
      ->option_text(" ");
  set_footer(app,
             "  cfck help\n"
             "  cfck help convert\n"
             "  cfck help --all convert\n"
             "  cfck help --man convert | man -l -\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_help(choices.help, console); };
  });
}

void set_up_completion(CLI::App& app, Choices& choices) {
  app.description(
      "Print a script that completes commands, options and their values in a shell. Packages and "
      "cmake --install put them where shells look for them.");
  suggest_words(app.add_option("SHELL", choices.completion.shell, "bash, zsh or fish")
                    ->required()
                    ->option_text(" "),
                "bash,zsh,fish");
  set_footer(app,
             "  eval \"$(cfck completion bash)\"\n"
             "  cfck completion zsh > ~/.zfunc/_cfck\n"
             "  cfck completion fish > ~/.config/fish/completions/cfck.fish\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) {
      return run_completion(choices.completion, console);
    };
  });
}

}  // namespace cfck::tools
