// cfck convert: a file or a folder, from safetensors to .cfck or back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "tools/convert/file.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

struct ConvertOptions {
  std::string input;
  std::string output;  // empty: the name beside the input; "-": standard output
  std::vector<std::string> more_inputs;
  std::string files_from;     // a list of further inputs; "-": from standard input
  std::string output_folder;  // for all outputs; empty: beside their inputs
  unsigned jobs = 1;          // inputs that are converted at the same time
  EncodeOptions encode;
  std::vector<std::string> rules;  // as given; run_convert adds them to `encode`
  std::string rules_file;
  std::vector<std::string> for_cfck;  // options that were given and concern encoding
  // The format of the output, whatever its name says; nullptr: as its name says, and where that
  // says nothing the counterpart of that of the input.
  const model::ArchiveFormat* to = nullptr;
  bool verify = false;
  bool dry_run = false;
  bool force = false;          // replace what exists
  bool skip_existing = false;  // pass over inputs whose output exists
  bool newer = false;          // likewise, unless the input is newer, whose output is replaced
  bool only_outdated = false;  // of a folder: only the files that outdated_in_output() names
  bool parents = false;        // keep the folders of inputs under `output_folder`
  std::optional<std::uint64_t> max_shard_bytes;  // OUT is a folder of shards
  ReadingOptions reading;                        // of IN
  std::string base;             // that a .cfck output is stored against, else IN; empty: nothing
  bool advises_readers = true;  // where they will not find the base; not of a patch
  bool replace_base = false;    // also an OUT that other files are stored against
  bool only_tensors = false;    // of inputs that hold more: the tensors that can be kept

  // True where any number of inputs is possible, none of which may keep the others from being
  // converted.
  bool takes_many() const { return !files_from.empty() || !output_folder.empty(); }
};

struct ConvertReport {
  std::string input;
  std::string output;
  const model::ArchiveFormat* from = nullptr;
  const model::ArchiveFormat* to = nullptr;
  std::vector<ConvertedFile> files;
  std::vector<std::string> copied;               // of a folder: the rest, relative paths
  std::vector<std::string> copied_from_outside;  // those where links lead out of the folder
  std::vector<std::string> warnings;             // about files of a folder
};

// Checks that the paths are not the same file, by any name. Error: kInvalidArgument.
Result<void> check_not_input(const std::string& input, const std::string& output);
// Does so too; `output` must not exist unless `force`. Errors: kInvalidArgument, kExists.
Result<void> check_output(const std::string& input, const std::string& output, bool force);

// Options for encoding make sense in conversions to .cfck only. Error: kInvalidArgument.
Result<void> check_direction(const ConvertOptions& options, const model::ArchiveFormat& from,
                             const model::ArchiveFormat& to);

// Returns the format that OUT names, nullptr where it names none that can be written.
const model::ArchiveFormat* named_format(const std::string& output);
// True where the output is one file, though the input may be a folder.
bool makes_file(const ConvertOptions& options);

// Returns the path of the output, from the name of the input and its first bytes. Errors: those of
// reading them; kInvalidArgument for a path that --parents cannot keep.
Result<std::string> conversion_output(const ConvertOptions& options);
Result<std::string> folder_output(const ConvertOptions& options);
// Returns the files that the conversion of a folder would write and that its output, which is
// there, lacks; with `newer` also those that are older there than their inputs. Errors: those of
// the input.
struct OutdatedFiles {
  std::vector<std::string> names;  // as they would be written
  // They can be written without the others: none is an index, nor a shard that an index names and
  // that the output lacks.
  bool one_by_one = true;
};
Result<OutdatedFiles> outdated_in_output(const ConvertOptions& options);
// Returns the name of an input under the folder of all outputs: its last part, or all of it.
// Error: kInvalidArgument for a path that leads out of the current folder.
Result<std::string> name_in_output(const ConvertOptions& options, const std::string& input);

// A conversion that has not begun: its output, and how much there is to do.
struct ConvertPlan {
  std::string output;
  std::uint64_t decoded_bytes = 0;
};
// Errors: those of the input, and of an output that must not be replaced.
Result<ConvertPlan> plan_conversion(const ConvertOptions& options);

// Where the progress of one conversion is shown: on a line of its own, or as a part of `whole`.
struct ProgressPlace {
  bool shows = false;
  ProgressBar* whole = nullptr;

  ProgressBar bar(const ConvertOptions& options, std::uint64_t decoded_bytes) const;
};

Result<ConvertReport> convert_input(const ConvertOptions& options, const ProgressPlace& place);
Result<ConvertReport> convert_folder(const ConvertOptions& options, const ProgressPlace& place);
Result<ConvertPlan> plan_folder(const ConvertOptions& options);
// A file, or the model of a folder, to a folder of shards with an index.
Result<ConvertReport> convert_to_shards(const ConvertOptions& options, const ProgressPlace& place);
Result<ConvertPlan> plan_shards(const ConvertOptions& options);
// Returns the path whose presence means that the shards of OUT are there: the folder, or, where OUT
// names a file in it ("folder/model.safetensors"), their index or the only one.
std::string shard_output(const std::string& out);

// Converts all inputs of `options`, whose rules are complete; goes on after errors. Returns the
// worst exit code.
int convert_many(const ConvertOptions& options, Console& console);

// Returns the exit code.
int run_convert(const ConvertOptions& options, Console& console);

}  // namespace cfck::tools
