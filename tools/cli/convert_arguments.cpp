#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/options.hpp"
#include "tools/cli/arguments.hpp"
#include "tools/cli/help_formatter.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/encode_options.hpp"
#include "tools/convert/target_arguments.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

constexpr const char* kFilesGroup = "Input and output";
constexpr const char* kTargetsGroup = "Quality and size targets (codec spectral)";

void add_max_errors(CLI::App& app, ConvertOptions& options) {
  set_group(app, "Error bounds");
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
      "Maximum absolute error of any value. Applies to float tensors with at least two dimensions "
      "and 1024 values; other tensors, optimizer state and tensors near zero stay lossless");
  add("--max-rel-error", options.encode.max_rel_error,
      "Maximum error as a fraction of the value range of each tensor");
  add("--max-sigma-error", options.encode.max_sigma_error,
      "Maximum error as a fraction of the standard deviation of each tensor, such as 0.01");
  app.add_flag(
      "--per-row", options.encode.per_row,
      "With --max-rel-error and --max-sigma-error: use the range or deviation of each row, an "
      "index of the first dimension");
  set_group(app, "Rules for single tensors");
  app.add_option("--rule", options.rules,
                 "'PATTERN: option=value, ...' sets options of the tensors whose names match. The "
                 "first rule that matches wins; may be repeated")
      ->option_text("RULE")
      ->expected(1)
      ->allow_extra_args(false)  // what follows the rule may be a file
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--rules", options.rules_file,
                 "A file with one rule per line; they come after those of --rule")
      ->option_text("FILE");
}

void add_effort(CLI::App& app, EncodeOptions& encode) {
  set_group(app, "Encoding");
  add_choice<EntropyId>(
      app, "--entropy", encode.entropy, {{"zstd", EntropyId::kZstd}, {"rans", EntropyId::kRans}},
      fmt::format("Entropy coder for floats: rans (fewer bytes, decodes faster) or zstd (any Zstd "
                  "decoder can read the symbols); default: {}",
                  entropy_name(kDefaultEntropy)),
      "NAME");
  add_level(app, encode);
  app.add_option("--chunk-elems", encode.chunk_elems,
                 "Values per chunk, the unit of random access and of parallel decoding; default: "
                 "at most 2^18 = 262144, in equal chunks. Rounded down to whole rows where one "
                 "fits")
      ->option_text("N")
      ->check(CLI::Range(1U, UINT32_MAX));
}

// When a codec can be used, where its name does not say so.
constexpr std::pair<std::string_view, std::string_view> kCodecNotes[] = {
    {"auto", "whichever takes fewer bytes"},
    {"direct", "with a maximum error"},
    {"spectral", "with a target or --max-abs-error; auto uses it for targets"},
    {"rows", "rows that repeat are stored once; auto uses it where that pays"}};

void add_codec(CLI::App& app, CodecChoice& codec) {
  std::map<std::string, CodecChoice> choices;
  std::string text = "Codec of the tensors:";
  set_group(app, "Encoding");
  for (const std::string_view name : codec_choice_names()) {
    text += fmt::format("{} {}", choices.empty() ? "" : ",", name);
    choices.emplace(name, *codec_choice_from_name(name));
    for (const auto& [noted, note] : kCodecNotes) {
      if (noted == name) text += fmt::format(" ({})", note);
    }
  }
  add_choice<CodecChoice>(app, "--codec", codec, choices, text, "NAME");
}

constexpr unsigned kMaxJobs = 1024;

void add_paths(CLI::App& app, ConvertOptions& options, Choices& choices) {
  help_page(app).usage = {"IN [OUT]", "IN... --output-dir FOLDER", "--files-from LIST"};
  set_group(app, kFilesGroup);
  app.add_option("IN", options.input, kAnyFile)->option_text(" ");
  app.add_option("OUT", options.more_inputs,
                 "The output. Default: beside IN, model.safetensors <-> model.cfck, folder <-> "
                 "folder-cfck; - is standard output, and the default for standard input")
      ->option_text(" ");
  app.add_option("-o,--output", options.output, "The output, as an option instead of OUT")
      ->option_text("OUT");
  app.add_option("--output-dir", options.output_folder,
                 "Write the outputs of any number of inputs to this folder, under their default "
                 "names. If an input fails, the others are still converted")
      ->option_text("FOLDER");
  app.add_option("--files-from", options.files_from,
                 "Also convert the inputs listed in this file, one path per line or separated by "
                 "NUL bytes as by find -print0; - is standard input")
      ->option_text("LIST");
  app.add_flag("--parents", options.parents,
               "Recreate the folders of each input below --output-dir, like cp --parents")
      ->needs("--output-dir")
      ->option_text(" ");
  app.add_flag(
      "--skip-existing", options.skip_existing,
      "Skip inputs whose output exists; of folders, convert the files that the output lacks");
  app.add_flag("--newer", options.newer,
               "Skip inputs whose output exists and is not older; replace older outputs; of "
               "folders, convert the files that are newer than in the output");
  app.add_option("-j,--jobs", options.jobs,
                 "Number of inputs to convert in parallel; default: 1. They share the CPUs unless "
                 "--threads is given. Does not affect the results")
      ->option_text("N")
      ->check(CLI::Range(1U, kMaxJobs))
      ->group(kResourcesGroup);
  choices.input_paths.push_back(&options.input);
  choices.input_paths.push_back(&options.files_from);
}

// Finds out what OUT is: an output, or more inputs.
void divide_paths(const CLI::App& app, ConvertOptions& options) {
  const bool has_input = app.count("IN") != 0;
  std::vector<std::string>& rest = options.more_inputs;
  std::error_code ignored;
  const bool names_folder =
      options.output.ends_with('/') || std::filesystem::is_directory(options.output, ignored);
  if (!options.output.empty() && options.takes_many()) {
    throw CLI::ValidationError(
        "--output names one output; leave it out with --output-dir and "
        "--files-from");
  }
  if (!options.output.empty() && !rest.empty() && names_folder) {
    options.output_folder = std::exchange(options.output, {});
  }
  if (!options.takes_many()) {
    if (!has_input) throw CLI::RequiredError("IN");
    if (rest.size() > 1 || (!rest.empty() && !options.output.empty())) {
      throw CLI::ValidationError(fmt::format(
          "{} inputs need --output-dir FOLDER, which gets the outputs; with --files-from LIST they "
          "can be beside their inputs",
          rest.size() + 1));
    }
    if (!rest.empty()) options.output = std::exchange(rest, {}).front();
    if (options.input == kStandardStream && options.output.empty()) {
      options.output = kStandardStream;
    }
    return;
  }
  if (!has_input && options.files_from.empty()) throw CLI::RequiredError("IN");
  const auto is_stream = [](const std::string& path) { return path == kStandardStream; };
  if (is_stream(options.input) || std::any_of(rest.begin(), rest.end(), is_stream)) {
    throw CLI::ValidationError(
        "standard input has no name, so that it needs OUT, and no --output-dir or --files-from");
  }
}

void add_base_of_output(CLI::App& app, ConvertOptions& options) {
  set_group(app, kBasesGroup);
  app.add_option(
         "--base", options.base,
         "Store OUT, a .cfck file, as what changed since this file or folder, which its readers "
         "have; they find a .cfck file by its name beside OUT. Otherwise: the base of IN")
      ->option_text("FILE");
}

void note_options_for_cfck(const CLI::App& app, ConvertOptions& options) {
  for (const char* name :
       {"--codec", "--max-abs-error", "--max-rel-error", "--max-sigma-error", "--per-row", "--rule",
        "--rules", "--entropy", "--level", "--chunk-elems", "--base"}) {
    if (app.count(name) != 0) options.for_cfck.push_back(name);
  }
  for (const char* name : kTargetArguments) {
    if (app.count(name) != 0) options.for_cfck.push_back(name);
  }
}

void add_examples(CLI::App& app) {
  set_footer(app,
             "  cfck convert model.safetensors               writes model.cfck\n"
             "  cfck convert model.cfck back.safetensors     restores the original bytes\n"
             "  cfck convert --verify llama/ llama-cfck/     a folder with shards\n"
             "  cfck convert model.safetensors small.cfck --quality high\n");
  help_page(app).more_examples =
      "  cfck convert run.pt                          writes run.cfck\n"
      "  cfck convert model.cfck model.npz            writes arrays for numpy\n"
      "  cfck convert llama/ llama.safetensors        all shards in one file\n"
      "  cfck convert big.safetensors parts/model.safetensors --max-shard-size 5GB\n"
      "  cfck convert --dry-run --json model.safetensors     what it would save\n"
      "  cfck convert *.safetensors --output-dir out/ --jobs 4\n"
      "  cfck convert - - < model.safetensors | ssh host 'cat > model.cfck'\n"
      "  cfck convert model.safetensors --size 60MB   best quality in 60 million bytes\n"
      "  cfck convert model.safetensors --max-sigma-error 1e-2 --per-row\n"
      "  cfck convert model.safetensors --max-rel-error 1e-3 \\\n"
      "    --rule 'head.*: codec=lossless' --rule '*.embed.*: max_abs_error=1e-4'\n";
}

constexpr const char* kDetails =
    "A folder is converted to a folder, shard by shard, and targets apply to all shards together; "
    "if OUT is the name of a file, all shards become that file. A name of a file without a suffix "
    "of "
    "these formats gets the format that follows from IN: .cfck, or safetensors from .cfck. Other "
    "files of the folder are "
    "copied; folders whose names begin with a dot are left out. A .cfck file is encoded again if "
    "OUT is a .cfck file too and options say how.\n"
    "The options of a rule are codec, max_abs_error, max_rel_error, max_sigma_error, per_row, "
    "nmse, psnr, bits_per_weight, trellis_states, steps, block, quality and force; its qualities "
    "and targets apply to each tensor separately. The last colon of a rule ends its pattern, in "
    "which * matches any characters, ? one, and [abc] one of these. Like the options for all "
    "tensors, a rule with a pattern leaves one-dimensional and small tensors and optimizer state "
    "lossless; a full name or the option force lifts that. In a file each line is a rule; lines "
    "that start with # are comments.\n"
    "Checksums that IN has as a zip file (.pt, .npz, .keras) are compared by --verify first.";

}  // namespace

void add_level(CLI::App& app, EncodeOptions& encode) {
  set_group(app, "Encoding");
  add_choice<EncodeLevel>(
      app, "--level", encode.level,
      {{"fast", EncodeLevel::kFast},
       {"default", EncodeLevel::kDefault},
       {"archive", EncodeLevel::kArchive}},
      "Compression effort: fast (the fewest passes), default, or archive (the fewest "
      "bytes; may take several times as long, and decode somewhat more slowly)",
      "NAME");
}

void set_up_convert(CLI::App& app, Choices& choices) {
  ConvertOptions& options = choices.convert;
  app.description(
      "Convert files of tensors to .cfck and back: without loss, unless options set an error bound "
      "or a target. The format of IN follows from its contents: safetensors, PyTorch (.pt, .pth, "
      ".bin, .ckpt; nothing in it is executed), HDF5, Keras or numpy. The format of OUT follows "
      "from its suffix: .cfck, .safetensors, .h5, .keras, .npz or .npy.");
  help_page(app).details = kDetails;
  help_page(app).first_options = {"--output", "--output-dir",      "--quality", "--bits-per-weight",
                                  "--size",   "--max-sigma-error", "--rule",    "--base",
                                  "--verify", "--force",           "--quiet"};
  add_paths(app, options, choices);
  add_max_errors(app, options);
  set_group(app, kTargetsGroup);
  add_targets(app, options.encode);
  for (const char* name : {"--trellis-states", "--steps", "--block"}) {
    app.get_option(name)->group("Encoding");
  }
  add_codec(app, options.encode.codec);
  suggest_words(app.get_option("--quality"), fmt::format("{}", fmt::join(quality_names(), ",")));
  suggest_words(app.get_option("--steps"), "model,flat,prior,calibrated,feedback");
  suggest_words(app.get_option("--trellis-states"), "64,8,4,1");
  add_effort(app, options.encode);
  app.parse_complete_callback([&app, &options] {
    note_options_for_cfck(app, options);
    divide_paths(app, options);
    const bool has_place = !options.output.empty() && options.output != kStandardStream;
    if (options.max_shard_bytes && !has_place) {
      throw CLI::ValidationError("--max-shard-size needs OUT, a folder for the shards");
    }
  });
  set_group(app, kFilesGroup);
  CLI::Option* verify = app.add_flag(
      "--verify", options.verify,
      "Decode the output and compare it with IN before it gets its final name: bit for bit, "
      "or against error bounds and targets");
  verify->option_text(" ");
  app.add_flag("--dry-run", options.dry_run, "Encode and report the sizes, but write nothing")
      ->excludes(verify)
      ->option_text(" ");
  add_max_shard_size(
      app, options.max_shard_bytes,
      "Write a folder of shards of at most this many bytes of tensors, with an index. OUT is the "
      "folder, or the common beginning and the format of the shards: FOLDER/model.safetensors")
      ->excludes("--dry-run", "--output-dir", "--files-from");
  app.add_flag("-f,--force", options.force, "Replace OUT if it exists");
  add_replace_base(app, options.replace_base);
  app.add_flag("--only-tensors", options.only_tensors,
               "Take only the tensors of files that hold more, and list what is left out");
  add_threads(app, options.encode.threads);
  add_base_of_output(app, options);
  add_base_dirs(app, options.reading);
  add_limits(app, options.reading.limits);
  add_common(app, choices);
  add_examples(app);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_convert(choices.convert, console); };
  });
}

}  // namespace cfck::tools
