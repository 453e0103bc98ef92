#include "tools/cli/arguments.hpp"

#include "tools/cli/help_formatter.hpp"

namespace cfck::tools {
namespace {

constexpr unsigned kMaxThreads = 4096;

// A line takes as many codes as fit.
std::string exit_code_lines() {
  constexpr std::size_t kColumns = 80;
  std::string text = "Exit codes:";
  std::size_t n_columns = text.size();
  for (const ExitCodeText& entry : exit_code_texts()) {
    const char* const end = &entry == &exit_code_texts().back() ? "." : ";";
    const std::string item = fmt::format("{} {}{}", entry.code, entry.meaning, end);
    const bool fits = n_columns + 1 + item.size() <= kColumns;
    text += fits ? ' ' : '\n';
    text += item;
    n_columns = (fits ? n_columns + 1 : 0) + item.size();
  }
  return text;
}

}  // namespace

void suggest_words(CLI::Option* option, const std::string& words) {
  const auto accept = [](std::string&) { return std::string(); };
  option->check(CLI::Validator(accept, words, kWordsCheck));
}

void add_common(CLI::App& app, Choices& choices) {
  set_group(app, kMessagesGroup);
  app.add_flag("--json", choices.console.json,
               "Print one line of JSON (\"schema_version\": 1) for each FILE");
  app.add_flag("-q,--quiet", choices.console.quiet,
               "Print only results, errors, and warnings about losses");
  app.add_flag("--no-warnings", choices.console.no_warnings, "Print no warnings");
  add_choice<ColorChoice>(
      app, "--color", choices.console.color,
      {{"auto", ColorChoice::kAuto},
       {"always", ColorChoice::kAlways},
       {"never", ColorChoice::kNever}},
      "When to use colours: auto (on terminals, unless NO_COLOR is set), always or never", "WHEN");
}

void add_threads(CLI::App& app, unsigned& threads) {
  set_group(app, kResourcesGroup);
  app.add_option("--threads", threads,
                 "Number of worker threads; default: all CPUs available to this process. Does not "
                 "affect the results")
      ->option_text("N")
      ->check(CLI::Range(0U, kMaxThreads));
}

CLI::Option* add_max_shard_size(CLI::App& app, std::optional<std::uint64_t>& max_bytes,
                                const std::string& text) {
  const auto set = [&max_bytes](const std::string& given) {
    const auto size = parse_size(given);
    if (!size || *size == 0) {
      throw CLI::ValidationError("--max-shard-size",
                                 fmt::format("'{}' is not a size such as 5GB", escaped(given)));
    }
    max_bytes = *size;
  };
  return app.add_option_function<std::string>("--max-shard-size", set, text)->option_text("SIZE");
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
  set_group(app, kResourcesGroup);
  app.add_option_function<std::vector<std::string>>(
         "--limit", set,
         fmt::format("Change a limit on the memory that a .cfck file may take, such as "
                     "max_decoded_bytes=60GB; may be repeated. Names: {}",
                     limit_names()))
      ->option_text("NAME=SIZE")
      ->expected(1)
      ->allow_extra_args(false)  // what follows the value may be a file
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::span<const ExitCodeText> exit_code_texts() {
  static constexpr ExitCodeText kTexts[] = {
      {"0", "success"},
      {"1", "files differ, or data was lost"},
      {"2", "usage error"},
      {"3", "input or output error"},
      {"4", "malformed file"},
      {"5", "checksum mismatch"},
      {"6", "unsupported file or feature"},
      {"7", "limit exceeded or out of memory"},
      {"8", "the output exists already"},
      {"70", "internal error"},
      {"128 + n", "stopped by signal n"},
  };
  return kTexts;
}

void set_footer(CLI::App& app, const std::string& examples) {
  help_page(app).examples = examples;
  app.footer(exit_code_lines());
}

}  // namespace cfck::tools
