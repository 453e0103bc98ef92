// The output of the programs, where it goes, and their exit codes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/status.hpp"
#include "model/error_path.hpp"

namespace cfck::tools {

// Exit codes of every command; part of the interface (see --help).
enum ExitCode : int {
  kExitOk = 0,
  kExitDifference = 1,  // a difference was found, or something was lost
  kExitUsage = 2,
  kExitIo = 3,
  kExitMalformed = 4,
  kExitChecksum = 5,
  kExitUnsupported = 6,
  kExitLimit = 7,
  kExitExists = 8,  // the output exists already
  kExitBug = 70,
  kExitSignal = 128,  // plus the number of the signal; with that of SIGPIPE, 13, also where
                      // who reads the bytes of a file from stdout stops early
};

int exit_code(ErrorCode code) noexcept;

// Returns the worse of two exit codes, for commands with several files: an internal error, files
// that are malformed, whose checksums do not match, that cannot be read, beyond a limit, or
// unsupported, wrong usage, outputs that exist, files that differ, success.
int worse_exit_code(int a, int b) noexcept;

enum class ColorChoice { kAuto, kAlways, kNever };

struct ConsoleOptions {
  bool json = false;
  bool quiet = false;
  bool no_warnings = false;
  ColorChoice color = ColorChoice::kAuto;
};

// Results go to stdout and are kept back until the end, so that an error of the
// output is noticed; messages go to stderr.
class Console {
 public:
  Console(std::string program, ConsoleOptions options);

  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }
  // Bars are for people who watch: they are never shown in a pipe or with --quiet.
  bool shows_progress() const { return progress_; }

  // Adds text for people; dropped with --quiet or --json.
  void say(std::string_view text);
  // Adds to stdout in any case.
  void print(std::string_view text);
  // Returns the text in bold, if stdout has colours.
  std::string bold(std::string_view text) const;

  // Prints one line on stderr, with --json also one on stdout. Returns the exit code.
  int fail(const Error& error, const std::string& path = {});
  // Prints only the line on stderr.
  int complain(const Error& error, const std::string& path);
  void warn(std::string_view message);
  // Likewise, with --quiet too: only --no-warnings ends these.
  void warn_of_loss(std::string_view message);

  // From now on everything that is shown says `name` instead of `path`, a temporary file.
  void show_as(const std::string& path, const std::string& name);
  // From now on results go to stderr: something else is written to stdout.
  void leave_stdout();

  // From now on stdout has the bytes of a file, which is of no use without its end.
  void carry_file() { carries_file_ = true; }

  // Writes what is left. Returns `code`, or kExitIo if stdout takes nothing. A closed pipe ends the
  // output quietly, with 128 and the number of SIGPIPE where it carries a file.
  int finish(int code);

 private:
  bool flush();
  std::string with_names(std::string_view text) const;

  std::string program_;
  ConsoleOptions options_;
  bool progress_ = false;
  bool color_out_ = false;
  bool color_err_ = false;
  bool out_failed_ = false;
  bool carries_file_ = false;
  bool out_closed_ = false;  // by who reads it: `head`, say
  std::string pending_;
  int out_;
  std::vector<std::pair<std::string, std::string>> names_;  // of temporary files
};

// "90.9 MB": powers of ten, three digits.
std::string human_bytes(std::uint64_t n_bytes);
// "22.7 M"
std::string human_count(std::uint64_t count);

using model::with_path;

// Makes a path fit for a JSON string: bytes that are not UTF-8 become \xff.
std::string json_text(const std::string& path);

// Returns the error as the value of "error" in a JSON report.
std::string error_json(const Error& error);

}  // namespace cfck::tools
