// The arguments of the commands about patches.
#include "tools/cli/arguments.hpp"
#include "tools/cli/help_formatter.hpp"
#include "tools/convert/patch.hpp"

namespace cfck::tools {
namespace {

constexpr const char* kOutputGroup = "Output";

void add_output(CLI::App& app, ConvertOptions& convert) {
  set_group(app, kOutputGroup);
  app.add_flag("--verify", convert.verify,
               "Decode the output and compare it, bit for bit, before it gets its final name")
      ->option_text(" ");
  app.add_flag("-f,--force", convert.force, "Replace OUT if it exists");
  add_replace_base(app, convert.replace_base);
}

void add_rest(CLI::App& app, ConvertOptions& convert, Choices& choices) {
  set_group(app, kBasesGroup);
  add_base_dirs(app, convert.reading);
  add_threads(app, convert.encode.threads);
  add_limits(app, convert.reading.limits);
  add_common(app, choices);
}

}  // namespace

void set_up_patch(CLI::App& app, Choices& choices) {
  PatchOptions& options = choices.patch;
  app.description(
      "Write a patch that turns OLD into NEW, without loss: a .cfck file that is stored against "
      "OLD. Where 2 % of the values changed, as they do in a step of training, it takes a "
      "hundredth "
      "of the bytes of NEW. cfck apply turns OLD into NEW again; cfck inspect lists what changed. "
      "Tensors that OLD lacks, or has with another dtype or shape, are stored whole. Other files "
      "of a folder, such as config.json, are not part of a patch.");
  app.add_option("OLD", options.before,
                 "What the receiver has: a file of tensors, .cfck, .safetensors, .pt, .h5, .keras, "
                 ".npz or .npy, or a folder of the first three")
      ->required()
      ->option_text(" ");
  app.add_option("NEW", options.after,
                 "The new version, of any of these formats; - is standard input")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", options.convert.output,
                 "The patch, a .cfck file; - is standard output")
      ->required()
      ->option_text("OUT");
  add_output(app, options.convert);
  add_level(app, options.convert.encode);
  add_rest(app, options.convert, choices);
  set_footer(app,
             "  cfck patch old.safetensors new.safetensors -o update.cfck\n"
             "  cfck apply old.safetensors update.cfck -o new.safetensors\n"
             "  cfck inspect --changes --base old.safetensors update.cfck\n");
  choices.input_paths.push_back(&options.after);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_patch(choices.patch, console); };
  });
}

void set_up_apply(CLI::App& app, Choices& choices) {
  ApplyOptions& options = choices.apply;
  app.description(
      "Apply a patch: write the new version of a model. Every tensor of OLD must have the values "
      "that the patch was made for; otherwise nothing is written. The format is the one that OUT's "
      "name says, else that of OLD; PyTorch files are read, but not written. OUT appears complete "
      "or not at all, and so does what replaces OLD with --in-place: programs that read OLD "
      "meanwhile keep what they opened.");
  app.add_option("OLD", options.before,
                 "What the patch was made for: a file of tensors, .cfck, .safetensors, .pt, .h5, "
                 ".keras, .npz or .npy, or a folder of the first three")
      ->required()
      ->option_text(" ");
  app.add_option("PATCH", options.patch, "What cfck patch wrote; - is standard input")
      ->required()
      ->option_text(" ");
  CLI::Option* output =
      app.add_option("-o,--output", options.convert.output,
                     "The new version: a file, or for the folder of a model a folder; - is "
                     "standard output")
          ->option_text("OUT");
  app.add_flag("--in-place", options.in_place, "Replace OLD with the new version")
      ->excludes(output)
      ->option_text(" ");
  app.parse_complete_callback([&options] {
    if (options.in_place || !options.convert.output.empty()) return;
    throw CLI::ValidationError("say where to: --output OUT, or --in-place to replace OLD");
  });
  add_max_shard_size(
      app, options.convert.max_shard_bytes,
      "Where OUT is a folder: at most this many bytes of tensors in each file; default: 5GB");
  add_output(app, options.convert);
  add_rest(app, options.convert, choices);
  set_footer(app,
             "  cfck apply old.safetensors update.cfck -o new.safetensors\n"
             "  cfck apply --in-place model.safetensors update.cfck\n");
  choices.input_paths.push_back(&options.patch);
  app.callback([&choices] {
    choices.run = [&choices](Console& console) { return run_apply(choices.apply, console); };
  });
}

}  // namespace cfck::tools
