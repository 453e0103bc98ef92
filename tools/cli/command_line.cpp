#include "tools/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "tools/cli/commands.hpp"
#include "tools/output/console.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/nearest_names.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

// "cfck-inspect verify ..." and "cfck inspect verify ...": the word after
// `inspect` may be a command of its own.
bool continues_inspect(const std::vector<std::string>& arguments) {
  const auto names = commands_of_inspect();
  return !arguments.empty() && std::find(names.begin(), names.end(), arguments[0]) != names.end();
}

// CLI11 says what it did not expect, but not what was meant.
Error explained(const CLI::App& app, const Command* command, const CLI::ParseError& error) {
  const auto help = fmt::format("try cfck help{}{}", command == nullptr ? "" : " ",
                                command == nullptr ? "" : command->name);
  const bool may_be_misspelt = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                               dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!may_be_misspelt || app.remaining().empty()) {
    return invalid_argument(fmt::format("{}; {}", error.what(), help));
  }
  const std::vector<std::string> extras = app.remaining();
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& extra) {
    return extra.starts_with('-') && extra != "-";
  });
  if (option == extras.end()) {
    return invalid_argument(
        fmt::format("more arguments than expected: {}; {}", escaped(extras.front()), help));
  }
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& text : known->get_lnames()) names.push_back("--" + text);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return invalid_argument("there is no option " + escaped(name) + did_you_mean(views, name, help));
}

int report_parse_error(const CLI::App& app, const Command* command, const CLI::ParseError& error,
                       Console& console) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    // The exceptions stand for --help, --help-all and --version.
    if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
      console.print(app.help());
    } else if (dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr) {
      console.print(app.help("", CLI::AppFormatMode::All));
    } else {
      console.print(std::string(error.what()) + "\n");
    }
    return console.finish(kExitOk);
  }
  return console.finish(console.fail(explained(app, command, error)));
}

// Puts a temporary file with what standard input has in the place of `-`. Returns its folder,
// nullptr where no path is `-`. Error: also kInvalidArgument where more than one is.
Result<std::unique_ptr<TemporaryDirectory>> take_standard_input(const Choices& choices,
                                                                Console& console) {
  std::vector<std::string*> given;
  const auto look_at = [&](std::string& path) {
    if (path == kStandardStream) given.push_back(&path);
  };
  for (std::string* path : choices.input_paths) look_at(*path);
  for (std::vector<std::string>* paths : choices.input_lists) {
    for (std::string& path : *paths) look_at(path);
  }
  if (given.empty()) return std::unique_ptr<TemporaryDirectory>();
  if (given.size() > 1) {
    return invalid_argument("standard input (-) can be read only once; name files");
  }
  catch_interrupts();
  CFCK_TRY_ASSIGN(auto folder, TemporaryDirectory::create());
  const std::string path = *folder / "standard-input";
  console.show_as(path, kStandardStream);
  CFCK_TRY(store_standard_input(path));
  *given.front() = path;
  return folder;
}

int run_command(const Choices& choices, Console& console) {
  const auto folder = take_standard_input(choices, console);
  if (const int number = interrupt_signal(); !folder && number != 0) return kExitSignal + number;
  return folder ? choices.run(console) : console.fail(folder.error());
}

int run_program(const std::string& program, const Command* command,
                std::vector<std::string> arguments) {
  // Options for errors of the command line itself.
  ConsoleOptions early;
  early.json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  if (command == nullptr && !arguments.empty() && !arguments[0].starts_with('-')) {
    Console console(program, early);
    return console.finish(console.fail(no_such_command(arguments[0])));
  }
  Choices choices;
  const auto app = make_parser(command, program, choices);
  try {
    std::reverse(arguments.begin(), arguments.end());
    app->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    Console console(program, early);
    return report_parse_error(*app, command, error, console);
  }
  Console console(program, choices.console);
  return console.finish(run_command(choices, console));
}

}  // namespace

int run_command_line(int argc, char** argv) {
  std::string program = argc > 0 ? argv[0] : "cfck";
  program.erase(0, program.rfind('/') + 1);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const Command* command = nullptr;
  const auto take = [&](const std::string& name) {
    command = find_command(name);
    program += " " + name;
    arguments.erase(arguments.begin());
  };
  if (program == "cfck-convert" || program == "cfck-inspect") {
    command = find_command(program.substr(5));
  } else if (!arguments.empty() && find_command(arguments[0]) != nullptr) {
    take(arguments[0]);
  }
  const bool inspects = command != nullptr && std::string(command->name) == "inspect";
  if (inspects && continues_inspect(arguments)) take(std::string(arguments[0]));
  return run_program(program, command, std::move(arguments));
}

}  // namespace cfck::tools
