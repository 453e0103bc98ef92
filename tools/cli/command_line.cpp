#include "tools/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/options.hpp"
#include "cfck/version.hpp"
#include "tools/cli/arguments.hpp"
#include "tools/cli/shrink.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/encode_options.hpp"
#include "tools/convert/target_arguments.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {
namespace {

void add_max_errors(CLI::App& app, ConvertOptions& options) {
  const auto add = [&](const std::string& name, std::optional<double>& error,
                       const std::string& text) {
    app.add_option_function<std::string>(
           name,
           [name, &error](const std::string& value) {
             const auto number = parse_max_error(value);
             if (!number) throw CLI::ValidationError(name, number.error().message);
             error = *number;
           },
           text)
        ->option_text("X");
  };
  add("--max-abs-error", options.encode.max_abs_error,
      "Maximum error of any value, for float tensors with two or more dimensions and 1024 or more "
      "values; other tensors, optimizer state and tensors near zero stay lossless");
  add("--max-rel-error", options.encode.max_rel_error,
      "Maximum error as a fraction of the value range of the tensor");
  add("--max-sigma-error", options.encode.max_sigma_error,
      "Maximum error as a fraction of the standard deviation of the tensor");
  app.add_flag("--per-row", options.encode.per_row,
               "With the last two: use the range or deviation of each row of the first dimension");
  app.add_option(
         "--rule", options.rules,
         "'PATTERN: option=value, ...' for tensors whose names match: codec, max_abs_error, "
         "max_rel_error, max_sigma_error, per_row, nmse, psnr, bits_per_weight, trellis_states, "
         "steps, block, quality, force. "
         "Qualities and targets apply to each tensor separately. The first match wins; may be "
         "repeated")
      ->option_text("RULE")
      ->expected(1)
      ->allow_extra_args(false)  // what follows the rule may be a file
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--rules", options.rules_file,
                 "A file with one rule per line; these come after those of --rule")
      ->option_text("FILE");
}

void add_effort(CLI::App& app, EncodeOptions& encode) {
  add_choice<EntropyId>(
      app, "--entropy", encode.entropy, {{"zstd", EntropyId::kZstd}, {"rans", EntropyId::kRans}},
      fmt::format("Entropy stage for floats: rans (fewer bytes, decodes faster) or zstd (any Zstd "
                  "can decompress the symbols); default: {}",
                  entropy_name(kDefaultEntropy)),
      "NAME");
  add_choice<EncodeLevel>(app, "--level", encode.level,
                          {{"fast", EncodeLevel::kFast},
                           {"default", EncodeLevel::kDefault},
                           {"archive", EncodeLevel::kArchive}},
                          "fast (the fewest passes), default, archive (the fewest bytes; may take "
                          "several times as long and decode somewhat more slowly)",
                          "NAME");
}

// When a codec can be used, where its name does not say so.
constexpr std::pair<std::string_view, std::string_view> kCodecNotes[] = {
    {"auto", "whichever takes fewer bytes"},
    {"direct", "with a maximum error"},
    {"spectral", "with a target or --max-abs-error; auto uses it for targets"}};

void add_codec(CLI::App& app, CodecChoice& codec) {
  std::map<std::string, CodecChoice> choices;
  std::string text;
  for (const std::string_view name : codec_choice_names()) {
    choices.emplace(name, *codec_choice_from_name(name));
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
    for (const auto& [noted, note] : kCodecNotes) {
      if (noted == name) text += fmt::format(" ({})", note);
    }
  }
  add_choice<CodecChoice>(app, "--codec", codec, choices, text, "NAME");
}

void add_paths_and_codec(CLI::App& app, ConvertOptions& options) {
  app.add_option("IN", options.input, "A safetensors or .cfck file, or a folder of them")
      ->required()
      ->option_text(" ");
  app.add_option("OUT", options.output,
                 "The output; default: beside IN, model.safetensors <-> model.cfck, "
                 "folder <-> folder-cfck")
      ->option_text(" ");
  add_codec(app, options.encode.codec);
}

void set_up_convert(CLI::App& app, Choices& choices) {
  ConvertOptions& options = choices.convert;
  app.description(
      "Convert safetensors to .cfck or back: losslessly, within a maximum error, or to a target.\n"
      "The direction follows from the contents of IN, not from its suffix.\n"
      "A folder is converted shard by shard, with targets for all shards together. Its other\n"
      "files are copied; folders whose names begin with a dot are left out.");
  add_paths_and_codec(app, options);
  add_max_errors(app, options);
  add_targets(app, options.encode);
  add_effort(app, options.encode);
  app.parse_complete_callback([&app, &options] {
    for (const char* name : {"--codec", "--max-abs-error", "--max-rel-error", "--max-sigma-error",
                             "--per-row", "--rule", "--rules", "--entropy", "--level"}) {
      if (app.count(name) != 0) options.for_cfck.push_back(name);
    }
    for (const char* name : kTargetArguments) {
      if (app.count(name) != 0) options.for_cfck.push_back(name);
    }
  });
  add_threads(app, options.encode.threads);
  CLI::Option* verify = app.add_flag(
      "--verify", options.verify,
      "Decode the output and compare it with IN before it gets its final name: bit for bit, "
      "or that no value exceeds its maximum error and that targets are met");
  verify->option_text(" ");
  app.add_flag("--dry-run", options.dry_run, "Encode and report the sizes, but write nothing")
      ->excludes(verify)
      ->option_text(" ");
  app.add_flag("-f,--force", options.force, "Replace OUT if it exists");
  add_limits(app, options.limits);
  add_common(app, choices);
  set_footer(
      app,
      "  cfck-convert model.safetensors                  writes model.cfck\n"
      "  cfck-convert model.cfck back.safetensors        restores the original bytes\n"
      "  cfck-convert --verify llama/ llama-cfck/        a folder with shards\n"
      "  cfck-convert --dry-run --json model.safetensors shows how much it would save\n"
      "  cfck-convert model.safetensors --max-sigma-error 1e-2 --per-row\n"
      "  cfck-convert model.safetensors --max-rel-error 1e-3 \\\n"
      "    --rule 'head.*: codec=lossless' --rule '*.embed.*: max_abs_error=1e-4'\n"
      "  cfck-convert model.safetensors --size 60MB      best quality in 60 million bytes\n"
      "The last colon of a rule ends its pattern, in which * matches any characters, ? one, and\n"
      "[abc] one of these. As the options for all tensors do, a rule with a pattern leaves\n"
      "one-dimensional and small tensors and optimizer state lossless; a full name or the option\n"
      "force lifts that. In a file each line is a rule; lines that start with # are comments.\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_convert(choices.convert, console); };
  });
}

void set_up_show(CLI::App& app, Choices& choices) {
  app.description(
      "List the contents of files: totals, then each tensor; for lossy tensors the bound or "
      "target\n"
      "and the worst error measured. Reads only the index.\n"
      "With `verify`, `digest`, `stats`, `bands`, `diff` or `extract` as the first word, runs "
      "that\n"
      "command (see cfck --help).");
  app.add_option("FILE", choices.show.paths, ".cfck or safetensors files, or folders of them")
      ->required()
      ->option_text(" ");
  add_choice<SortKey>(
      app, "--sort", choices.show.sort,
      {{"file", SortKey::kFile},
       {"name", SortKey::kName},
       {"dtype", SortKey::kDType},
       {"codec", SortKey::kCodec},
       {"elems", SortKey::kElems},
       {"raw", SortKey::kRaw},
       {"ratio", SortKey::kRatio},
       {"stored", SortKey::kStored},
       {"bits", SortKey::kBits}},
      "file (default), name, dtype, codec; or, largest first: elems, raw, stored, ratio, bits",
      "KEY");
  app.add_option("--filter", choices.show.filters,
                 "Only tensors whose names match the shell pattern; may be repeated")
      ->option_text("GLOB")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_limits(app, choices.show.limits);
  add_common(app, choices);
  set_footer(app,
             "  cfck-inspect model.cfck\n"
             "  cfck-inspect --sort stored --filter '*attn*' model.cfck\n"
             "  cfck-inspect verify --deep model.cfck\n"
             "  cfck-inspect --json model.cfck | jq '.records[].bits_per_weight'\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_show(choices.show, console); };
  });
}

void set_up_verify(CLI::App& app, Choices& choices) {
  app.description("Check every frame and every hash of .cfck files.");
  app.add_option("FILE", choices.verify.paths, ".cfck files, or folders of them")
      ->required()
      ->option_text(" ");
  app.add_flag("--deep", choices.verify.deep,
               "Also decode every tensor and compare it with its digest");
  add_threads(app, choices.verify.threads);
  add_limits(app, choices.verify.limits);
  add_common(app, choices);
  set_footer(app, "  cfck verify --deep model.cfck\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_verify(choices.verify, console); };
  });
}

void set_up_digest(CLI::App& app, Choices& choices) {
  app.description(
      "Print the content digest, which is equal for files with equal tensors, however they are\n"
      "stored: compressed or not, sharded or not.");
  app.add_option("FILE", choices.digest.paths, ".cfck or safetensors files, or folders of them")
      ->required()
      ->option_text(" ");
  app.add_flag("-v,--per-tensor", choices.digest.per_tensor,
               "Also print the digest of each tensor");
  add_limits(app, choices.digest.limits);
  add_common(app, choices);
  set_footer(app, "  cfck digest model.safetensors model.cfck\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_digest(choices.digest, console); };
  });
}

void set_up_compact(CLI::App& app, Choices& choices) {
  app.description("Rewrite .cfck files without the data that updates have replaced.");
  app.add_option("FILE", choices.compact.paths, ".cfck files, or folders of them")
      ->required()
      ->option_text(" ");
  add_threads(app, choices.compact.threads);
  add_limits(app, choices.compact.limits);
  add_common(app, choices);
  set_footer(app, "  cfck compact model.cfck\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_compact(choices.compact, console); };
  });
}

void set_up_repair(CLI::App& app, Choices& choices) {
  app.description(
      "Copy every tensor of a damaged .cfck file whose hashes match to a new file. Exit code 1 if\n"
      "any tensor is lost.");
  app.add_option("FILE", choices.repair.damaged, "The damaged file, which is not changed")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", choices.repair.output, "The new file, which must not exist")
      ->required()
      ->option_text("NEW");
  add_threads(app, choices.repair.threads);
  add_limits(app, choices.repair.limits);
  add_common(app, choices);
  set_footer(app, "  cfck repair torn.cfck -o whole.cfck\n");
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_repair(choices.repair, console); };
  });
}

// Python parses the arguments, and has the help text.
void set_up_shrink(CLI::App& app, Choices& choices) {
  app.description("Store a model of transformers as small as an outcome allows.");
  app.set_help_flag();
  app.prefix_command();
  app.callback([&app, &choices] {
    choices.run = [&app](Console& console) { return run_shrink(app.remaining(), console); };
  });
}

struct Command {
  const char* name;
  const char* summary;
  void (*set_up)(CLI::App&, Choices&);
};

constexpr Command kCommands[] = {
    {"convert", "Convert safetensors to .cfck or back", set_up_convert},
    {"inspect", "List the contents of files; `show` is another name for it", set_up_show},
    {"show", "", set_up_show},
    {"verify", "Check every hash of .cfck files, and every value with --deep", set_up_verify},
    {"digest", "Print one hash over the tensors of a file, however they are stored", set_up_digest},
    {"stats", "Describe the values of tensors, and their errors against a reference", set_up_stats},
    {"bands", "Show how codec spectral coded tensors: bits and errors by band", set_up_bands},
    {"diff", "Compare the tensors of two files", set_up_diff},
    {"report", "Write a page about a file: sizes, bits, errors, values, bands", set_up_report},
    {"extract", "Write one tensor as a .npy file", set_up_extract},
    {"shrink", "Store a model of transformers as small as an outcome allows", set_up_shrink},
    {"compact", "Rewrite .cfck files without the data that updates have replaced", set_up_compact},
    {"repair", "Recover the intact tensors of a damaged .cfck file", set_up_repair},
};

const Command* find_command(const std::string& name) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [&](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// "cfck-inspect verify ..." and "cfck inspect verify ...": the word after
// `inspect` may be a command of its own.
bool continues_inspect(const std::vector<std::string>& arguments) {
  static constexpr std::string_view kNames[] = {"show",  "verify", "digest", "stats",
                                                "bands", "diff",   "extract"};
  return !arguments.empty() &&
         std::find(std::begin(kNames), std::end(kNames), arguments[0]) != std::end(kNames);
}

void set_up_overview(CLI::App& app) {
  app.description("Compressed and verified files of tensors: checkpoints of neural networks.");
  for (const Command& command : kCommands) {
    if (*command.summary != '\0') app.add_subcommand(command.name, command.summary);
  }
  app.require_subcommand(1);
  set_footer(app,
             "  cfck convert model.safetensors\n"
             "  cfck inspect model.cfck\n"
             "  cfck verify model.cfck\n"
             "  cfck COMMAND --help\n");
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error, Console& console) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    // The exceptions stand for --help and --version.
    const bool wants_help = dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr;
    console.print(wants_help ? app.help() : std::string(error.what()) + "\n");
    return console.finish(kExitOk);
  }
  const int code = console.fail(
      invalid_argument(fmt::format("{}; try {} --help", error.what(), app.get_name())));
  return console.finish(code);
}

int run_program(const std::string& program, const Command* command,
                std::vector<std::string> arguments) {
  // Options for errors of the command line itself.
  ConsoleOptions early;
  early.json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  Choices choices;
  CLI::App app("", program);
  app.set_version_flag("--version", std::string("cfck ") + library_version());
  if (command == nullptr && !arguments.empty() && !arguments[0].starts_with('-')) {
    Console console(program, early);
    return console.finish(console.fail(
        {ErrorCode::kInvalidArgument,
         fmt::format("there is no command '{}'; try cfck --help", escaped(arguments[0])),
         {},
         {}}));
  }
  if (command != nullptr) {
    command->set_up(app, choices);
  } else {
    set_up_overview(app);
  }
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    Console console(program, early);
    return report_parse_error(app, error, console);
  }
  Console console(program, choices.console);
  return console.finish(choices.run(console));
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
