// Parts that the commands' arguments have in common.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cfck/options.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/patch.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/console.hpp"
#include "tools/report/report.hpp"
#include "tools/spectrum/spectrum.hpp"

namespace cfck::tools {

struct HelpOptions {
  std::string command;  // empty: an overview
  bool all = false;     // with every option
  bool man = false;     // as a manual page
  bool list = false;    // only the names of the commands
};

struct CompletionOptions {
  std::string shell;
};

// Everything that may appear on a command line. The chosen command sets
// `run`.
struct Choices {
  ConsoleOptions console;
  ConvertOptions convert;
  ShowOptions show;
  VerifyOptions verify;
  DigestOptions digest;
  StatsOptions stats;
  BandsOptions bands;
  SpectrumOptions spectrum;
  DiffOptions diff;
  ExtractOptions extract;
  PatchOptions patch;
  ApplyOptions apply;
  CompactOptions compact;
  RepairOptions repair;
  ReportOptions report;
  HelpOptions help;
  CompletionOptions completion;
  // Where a path `-` means standard input.
  std::vector<std::string*> input_paths;
  std::vector<std::vector<std::string>*> input_lists;
  std::function<int(Console&)> run;
};

// The name of the check that says which words an option takes, for completion and manual pages.
inline constexpr const char* kWordsCheck = "words";

// Says which words `option` takes, separated by commas; what else it takes is its own business.
void suggest_words(CLI::Option* option, const std::string& words);

// Adds an option whose values are a few words.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& choice,
                const std::map<std::string, T>& words, const std::string& text,
                const std::string& value) {
  const auto choose = [name, &choice, words](const std::string& word) {
    const auto found = words.find(word);
    if (found != words.end()) {
      choice = found->second;
      return;
    }
    std::string known;
    for (const auto& entry : words) known += (known.empty() ? "" : ", ") + entry.first;
    throw CLI::ValidationError(name, fmt::format("'{}' is not one of {}", escaped(word), known));
  };
  std::string known;
  for (const auto& entry : words) known += (known.empty() ? "" : ",") + entry.first;
  suggest_words(app.add_option_function<std::string>(name, choose, text)->option_text(value),
                known);
}

// What commands that read any file say of it.
inline constexpr const char* kAnyFile =
    "A file of tensors, .cfck, .safetensors, .pt, .h5, .keras, .npz or .npy, or a folder of the "
    "first three; - is standard input";
inline constexpr const char* kAnyFiles =
    "Files of tensors, .cfck, .safetensors, .pt, .h5, .keras, .npz or .npy, or folders of the "
    "first three; - is standard input";

void add_common(CLI::App& app, Choices& choices);
void add_threads(CLI::App& app, unsigned& threads);
// Adds --level NAME.
void add_level(CLI::App& app, EncodeOptions& encode);
// Adds --max-shard-size SIZE.
CLI::Option* add_max_shard_size(CLI::App& app, std::optional<std::uint64_t>& max_bytes,
                                const std::string& text);
// Adds --limit NAME=SIZE: how much a .cfck file may make the program hold in memory.
void add_limits(CLI::App& app, Limits& limits);
// Adds --replace-base: what --force does not replace.
void add_replace_base(CLI::App& app, bool& replace_base);
// Adds --base-dir FOLDER: where bases are looked for that files name.
void add_base_dirs(CLI::App& app, ReadingOptions& reading);
// Adds --base FILE, and those two.
void add_reading(CLI::App& app, ReadingOptions& reading);
// Adds examples, and the meaning of exit codes.
void set_footer(CLI::App& app, const std::string& examples);

struct ExitCodeText {
  const char* code;
  const char* meaning;
};
std::span<const ExitCodeText> exit_code_texts();

// Each declares what its command takes; kCommands in commands.cpp has them all.
void set_up_convert(CLI::App& app, Choices& choices);
void set_up_show(CLI::App& app, Choices& choices);
void set_up_verify(CLI::App& app, Choices& choices);
void set_up_digest(CLI::App& app, Choices& choices);
void set_up_stats(CLI::App& app, Choices& choices);
void set_up_spectrum(CLI::App& app, Choices& choices);
void set_up_bands(CLI::App& app, Choices& choices);
void set_up_diff(CLI::App& app, Choices& choices);
void set_up_extract(CLI::App& app, Choices& choices);
void set_up_patch(CLI::App& app, Choices& choices);
void set_up_apply(CLI::App& app, Choices& choices);
void set_up_compact(CLI::App& app, Choices& choices);
void set_up_repair(CLI::App& app, Choices& choices);
void set_up_report(CLI::App& app, Choices& choices);
void set_up_shrink(CLI::App& app, Choices& choices);
void set_up_help(CLI::App& app, Choices& choices);
void set_up_completion(CLI::App& app, Choices& choices);

}  // namespace cfck::tools
