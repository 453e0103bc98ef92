#include "tools/cli/commands.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "cfck/version.hpp"
#include "tools/cli/help_formatter.hpp"
#include "tools/output/nearest_names.hpp"

namespace cfck::tools {
namespace {

constexpr Command kCommands[] = {
    {"convert", "Convert safetensors, PyTorch, HDF5, numpy files to .cfck and back",
     set_up_convert},
    {"inspect", "List the contents of files; `show` is another name for it", set_up_show},
    {"show", "", set_up_show},
    {"verify", "Check every hash of .cfck files, and every value with --deep", set_up_verify},
    {"digest", "Print one hash over the tensors of a file, however they are stored", set_up_digest},
    {"stats", "Describe values of tensors, and their errors against a reference", set_up_stats},
    {"bands", "Show how codec spectral coded tensors: bits and errors by band", set_up_bands},
    {"spectrum", "Show what tensors are made of, and what each codec would take", set_up_spectrum},
    {"diff", "Compare the tensors of two files", set_up_diff},
    {"report", "Write a page about a file: sizes, bits, errors, values, bands", set_up_report},
    {"extract", "Write one tensor as a .npy file", set_up_extract},
    {"patch", "Write what changed between two versions of a model", set_up_patch},
    {"apply", "Apply a patch: write the new version of a model", set_up_apply},
    {"shrink", "Compress a Transformers model as far as a quality goal allows", set_up_shrink},
    {"compact", "Rewrite .cfck files without the data that updates have replaced", set_up_compact},
    {"repair", "Recover the intact tensors of a damaged .cfck file", set_up_repair},
    {"help", "Describe a command", set_up_help},
    {"completion", "Print a shell completion script", set_up_completion},
};

void set_up_overview(CLI::App& app) {
  app.description("Compressed and verified files of tensors: checkpoints of neural networks.");
  for (const Command& command : kCommands) {
    if (!command.is_alias()) app.add_subcommand(command.name, command.summary)->group("Commands");
  }
  app.require_subcommand(1);
  set_footer(app,
             "  cfck convert model.safetensors\n"
             "  cfck inspect model.cfck\n"
             "  cfck verify model.cfck\n"
             "  cfck help COMMAND\n");
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [&](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

std::span<const std::string_view> commands_of_inspect() {
  static constexpr std::string_view kNames[] = {"show",  "verify",   "digest", "stats",
                                                "bands", "spectrum", "diff",   "extract"};
  return kNames;
}

// Other programs use these names for the same; none is near ours in letters.
constexpr std::pair<std::string_view, std::string_view> kOtherVerbs[] = {
    {"info", "inspect"},     {"list", "inspect"},       {"ls", "inspect"},
    {"dump", "inspect"},     {"cat", "inspect"},        {"print", "inspect"},
    {"view", "inspect"},     {"head", "inspect"},       {"summary", "inspect"},
    {"compress", "convert"}, {"decompress", "convert"}, {"encode", "convert"},
    {"decode", "convert"},   {"pack", "convert"},       {"unpack", "convert"},
    {"zip", "convert"},      {"unzip", "convert"},      {"quantize", "convert"},
    {"quantise", "convert"}, {"merge", "convert"},      {"split", "convert"},
    {"shard", "convert"},    {"import", "convert"},     {"export", "convert"},
    {"save", "convert"},     {"copy", "convert"},       {"delta", "patch"},
    {"check", "verify"},     {"test", "verify"},        {"validate", "verify"},
    {"hash", "digest"},      {"checksum", "digest"},    {"sum", "digest"},
    {"compare", "diff"},     {"cmp", "diff"},           {"get", "extract"},
    {"describe", "stats"},   {"statistics", "stats"},   {"fix", "repair"},
    {"recover", "repair"},   {"vacuum", "compact"},     {"gc", "compact"},
    {"prune", "shrink"}};

Error no_such_command(std::string_view wanted) {
  const auto* const other = std::find_if(std::begin(kOtherVerbs), std::end(kOtherVerbs),
                                         [&](const auto& verb) { return verb.first == wanted; });
  if (other != std::end(kOtherVerbs)) {
    return invalid_argument("there is no command '" + escaped(wanted) + "'; did you mean '" +
                            std::string(other->second) + "'?");
  }
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return invalid_argument("there is no command '" + escaped(wanted) + "'" +
                          did_you_mean(names, wanted, "cfck help lists all commands"));
}

std::unique_ptr<CLI::App> make_parser(const Command* command, const std::string& program,
                                      Choices& choices) {
  auto app = std::make_unique<CLI::App>("", program);
  app->formatter(std::make_shared<HelpFormatter>());
  set_group(*app, kHelpGroup);
  app->set_help_flag("-h,--help", "Show this help and exit");
  if (command != nullptr) {
    app->set_help_all_flag("--help-all", "Show the help with every option and exit");
  }
  app->set_version_flag("--version", std::string("cfck ") + library_version(),
                        "Show the version and exit");
  set_group(*app, kOptionsGroup);
  if (command != nullptr) {
    command->set_up(*app, choices);
  } else {
    set_up_overview(*app);
  }
  return app;
}

}  // namespace cfck::tools
