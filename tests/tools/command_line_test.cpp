// The command line of the program: commands, options, help.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(CommandLine, HelpAndVersion) {
  for (const char* program : {"cfck", "cfck-convert", "cfck-inspect"}) {
    RunOptions options;
    options.program = program;
    const Outcome help = run({"--help"}, options);
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("Examples"), std::string::npos) << program;
    EXPECT_NE(help.out.find("Exit codes"), std::string::npos) << program;
    EXPECT_NE(help.out.find(program), std::string::npos) << help.out;
    const Outcome version = run({"--version"}, options);
    EXPECT_EQ(version.code, 0);
    EXPECT_EQ(version.out, "cfck 0.1.0\n");
  }
  for (const char* command : {"convert", "inspect", "show", "verify", "digest", "stats", "diff",
                              "extract", "compact", "repair"}) {
    EXPECT_EQ(run({command, "--help"}).code, 0) << command;
    EXPECT_NE(run({"--help"}).out.find(command), std::string::npos) << command;
  }
  for (const char* command : {"verify", "digest", "stats", "diff", "extract"}) {
    std::string help = run({"inspect", command, "--help"}).out;
    const std::size_t usage = help.find("cfck inspect ");
    ASSERT_NE(usage, std::string::npos) << help;
    EXPECT_EQ(help.erase(usage + 5, 8), run({command, "--help"}).out) << command;
  }
}

// The file is named even where the path is a word of the message, or a part of one.
TEST(CommandLine, MessagesNameTheFile) {
  const TemporaryFolder folder;
  RunOptions options;
  options.folder = folder.path();
  for (const std::string name : {"e", "empty", "file", "the"}) {
    write_file(folder / name, "");
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"show", name}, {"convert", name}, {"stats", name}}) {
      const Outcome outcome = run(command, options);
      EXPECT_EQ(outcome.code, 4);
      EXPECT_NE(outcome.err.find(" error: " + name + ": the file is empty"), std::string::npos)
          << outcome.err;
    }
    const std::string missing = name + "x";
    const Outcome outcome = run({"show", missing}, options);
    EXPECT_NE(outcome.err.find(" error: cannot open '" + missing + "'"), std::string::npos)
        << outcome.err;
  }
  // A file of a folder is named once.
  write_file(folder / "m/a.safetensors", "");
  for (const char* path : {"m", "m/", "./m"}) {
    const Outcome outcome = run({"show", path}, options);
    EXPECT_NE(outcome.err.find("a.safetensors: the file is empty"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find("m: "), std::string::npos) << outcome.err;
  }
}

TEST(CommandLine, WrongUsage) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"explode"}).code, 2);
  EXPECT_NE(run({"explode"}).err.find("no command 'explode'"), std::string::npos);
  EXPECT_EQ(run({"--explode"}).code, 2);
  EXPECT_EQ(run({"inspect", "--what", "x"}).code, 2);
  for (const auto& [command, message] : std::map<std::vector<std::string>, std::string>{
           {{"inspect", "--color", "blue", "x"}, "'blue' is not one of always, auto, never"},
           {{"inspect", "--sort", "size", "x"}, "'size' is not one of bits, codec, dtype, elems"},
           {{"convert", "--codec", "zip", "x"}, "'zip' is not one of auto, direct, lossless, raw"},
           {{"convert", "--entropy", "none", "x"}, "'none' is not one of rans, zstd"},
           {{"convert", "--level", "best", "x"}, "'best' is not one of archive, default, fast"},
           {{"stats", "x", "--common"}, "--common requires --ref"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  }
  const Outcome outcome = run({"convert", "--json", "--what"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.json()["error"]["code"], "invalid_argument");
  EXPECT_EQ(line_count(outcome.err), 1U) << outcome.err;
}

// One line suggests the command or option that may have been meant.
TEST(CommandLine, DidYouMean) {
  for (const auto& [command, suggestion] : std::map<std::vector<std::string>, std::string>{
           {{"convrt", "x"}, "no command 'convrt'; did you mean 'convert'"},
           {{"verfy", "x"}, "did you mean 'verify'"},
           {{"help", "extrct"}, "did you mean 'extract'"},
           {{"info", "x"}, "did you mean 'inspect'"},
           {{"list", "x"}, "did you mean 'inspect'"},
           {{"compress", "x"}, "did you mean 'convert'"},
           {{"check", "x"}, "did you mean 'verify'"},
           {{"convert", "x", "--bit-per-weight", "3"},
            "there is no option --bit-per-weight; did you mean '--bits-per-weight'"},
           {{"convert", "--max-abs-eror=1e-3", "x"},
            "there is no option --max-abs-eror; did you mean '--max-abs-error'"},
           {{"verify", "--depp", "x"}, "did you mean '--deep'"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << suggestion;
    EXPECT_NE(outcome.err.find(suggestion), std::string::npos) << outcome.err;
    EXPECT_EQ(line_count(outcome.err), 1U) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  // Nothing is like this.
  const Outcome strange = run({"convert", "x", "--zzzzzzzzzzzzzzzz"});
  EXPECT_EQ(strange.code, 2);
  EXPECT_EQ(strange.err.find("did you mean"), std::string::npos) << strange.err;
  EXPECT_NE(strange.err.find("cfck help convert"), std::string::npos) << strange.err;
  // Control characters are not sent to the terminal.
  const Outcome hostile = run({"\x1b[31m", "x"});
  EXPECT_EQ(hostile.err.find('\x1b'), std::string::npos);
}

TEST(CommandLine, HelpOfCommands) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  for (const char* command : {"convert", "inspect", "show", "verify", "digest", "stats", "bands",
                              "diff", "extract", "compact", "repair", "help"}) {
    const Outcome help = run({"help", command});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_EQ(help.out, run({command, "--help"}).out) << command;
    EXPECT_NE(help.out.find("8 the output exists already"), std::string::npos) << command;
  }
  EXPECT_EQ(run({"help", "nothing.like.it"}).code, 2);
}

// Returns the names of the options that a help text lists, in its order.
std::vector<std::string> options_in(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const std::size_t begin = line.find("--");
    names.push_back(line.substr(begin, line.find(' ', begin) - begin));
  }
  return names;
}

// The first screen of a command with many options has those that most people need.
TEST(CommandLine, FirstScreensAreShort) {
  const std::vector<std::string> expected = {
      "--output",          "--output-dir", "--quality",  "--bits-per-weight", "--size",
      "--max-sigma-error", "--rule",       "--base",     "--verify",          "--force",
      "--quiet",           "--help",       "--help-all", "--version"};
  EXPECT_EQ(options_in(run({"convert", "--help"}).out), expected);
  std::istringstream commands(run({"help", "--list"}).out);
  for (std::string command; std::getline(commands, command);) {
    if (command == "shrink") continue;  // Python has its help
    const Outcome first = run({command, "--help"});
    const Outcome all = run({command, "--help-all"});
    EXPECT_EQ(all.code, 0) << all.err;
    EXPECT_EQ(run({"help", "--all", command}).out, all.out);
    EXPECT_LE(line_count(first.out), 60U) << command;
    for (const std::string& text : {first.out, all.out}) {
      EXPECT_EQ(text.find("Excludes:"), std::string::npos) << text;
      EXPECT_EQ(text.find("Needs:"), std::string::npos) << text;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    }
    // Options of the first screen are also among all options, each of which is there once.
    std::vector<std::string> names = options_in(all.out);
    for (const std::string& name : options_in(first.out)) {
      EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << command << name;
    }
  }
}

TEST(CommandLine, HelpOfAllOptionsIsInGroups) {
  const std::string help = run({"convert", "--help-all"}).out;
  std::string group;
  std::map<std::string, std::string> groups;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ' && line.ends_with(':')) group = line;
    if (line.starts_with("  -")) groups[options_in(line + "\n").front()] = group;
  }
  EXPECT_EQ(groups["--skip-existing"], "Input and output:");
  EXPECT_EQ(groups["--max-abs-error"], "Error bounds:");
  EXPECT_EQ(groups["--rules"], "Rules for single tensors:");
  EXPECT_EQ(groups["--psnr"], "Quality and size targets (codec spectral):");
  for (const char* expert : {"--steps", "--trellis-states", "--entropy", "--level", "--block"}) {
    EXPECT_EQ(groups[expert], "Encoding:") << expert;
  }
  EXPECT_EQ(groups["--jobs"], "Resources:");
  EXPECT_EQ(groups["--color"], "Messages:");
  EXPECT_EQ(groups["--version"], "Help:");
  EXPECT_NE(help.find("--rule 'head.*"), std::string::npos) << "examples for experts";
  EXPECT_EQ(run({"help", "--all", "--man", "convert"}).code, 2);
}

// Descriptions are broken at the width of the terminal, examples are not.
TEST(CommandLine, HelpFitsTheTerminal) {
  for (const std::size_t columns : {60U, 80U, 200U}) {
    RunOptions options;
    options.terminal = true;
    options.environment = {"COLUMNS=" + std::to_string(columns)};
    std::istringstream lines(run({"help", "convert"}, options).out);
    std::size_t longest = 0;
    bool is_broken = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("Convert")) is_broken = true;
      if (line.starts_with("Examples:")) is_broken = false;
      if (is_broken) longest = std::max(longest, line.find_last_not_of("\r\n") + 1);
    }
    EXPECT_LE(longest, std::min<std::size_t>(columns, 100));
    EXPECT_GT(longest, std::min<std::size_t>(columns, 100) - 15);
  }
}

}  // namespace
}  // namespace cfck::test
