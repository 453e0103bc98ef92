#include "tools/cli/arguments.hpp"

namespace cfck::tools {
namespace {

constexpr unsigned kMaxThreads = 4096;

constexpr const char* kExitCodes =
    "Exit codes: 0 ok; 1 files differ, or something was lost; 2 wrong usage; 3 input or\n"
    "output failed; 4 malformed file; 5 checksum; 6 unsupported file or feature; 7 limit or\n"
    "memory; 70 a bug in cfck; 128 + n stopped by signal n.";

}  // namespace

void add_common(CLI::App& app, Choices& choices) {
  app.add_flag("--json", choices.console.json,
               "Print one line of JSON (\"schema_version\": 1) for each FILE");
  app.add_flag("-q,--quiet", choices.console.quiet, "Print results and errors only");
  add_choice<ColorChoice>(app, "--color", choices.console.color,
                          {{"auto", ColorChoice::kAuto},
                           {"always", ColorChoice::kAlways},
                           {"never", ColorChoice::kNever}},
                          "auto (terminals, unless NO_COLOR is set), always, never", "WHEN");
}

void add_threads(CLI::App& app, unsigned& threads) {
  app.add_option("--threads", threads,
                 "Worker threads; default: the CPUs this process may use. Results do not depend "
                 "on it")
      ->option_text("N")
      ->check(CLI::Range(0U, kMaxThreads));
}

void add_limits(CLI::App& app, Limits& limits) {
  const auto set = [&limits](const std::vector<std::string>& given) {
    for (const std::string& text : given) {
      const std::size_t sign = text.find('=');
      const auto size = sign == std::string::npos ? Result<std::uint64_t>(Error())
                                                  : parse_size(text.substr(sign + 1));
      if (!size || !set_limit(limits, text.substr(0, sign), *size)) {
        throw CLI::ValidationError(
            "--limit", fmt::format("'{}' is not NAME=SIZE, such as max_decoded_bytes=60GB; names: "
                                   "{}",
                                   escaped(text), limit_names()));
      }
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--limit", set,
         fmt::format("Raise or lower what a .cfck file may make this program hold in memory: {}; "
                     "sizes as 60MB or 2GiB; may be repeated",
                     limit_names()))
      ->option_text("NAME=SIZE")
      ->expected(1)
      ->allow_extra_args(false)  // what follows the value may be a file
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void set_footer(CLI::App& app, const std::string& examples) {
  app.footer("Examples:\n" + examples + "\n" + kExitCodes);
}

}  // namespace cfck::tools
