// Files of tensors, from safetensors to .cfck or back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/writer.hpp"
#include "model/formats/archive_format.hpp"
#include "model/left_out.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/loss.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {

struct FileConversion {
  std::string input;  // a file, or the folder of a model that becomes one file
  std::string output;
  EncodeOptions encode;
  bool verify = false;   // decode the written file and compare, before it gets its name
  bool dry_run = false;  // encode, count, write nothing
  bool replace_existing = false;
  std::string shard_index;                   // to be kept in the .cfck file; empty: none
  std::string label;                         // in messages, where there are several; empty: none
  ReadingOptions reading = {};               // of the input
  bool only_tensors = false;                 // as ArchiveOptions has it
  const model::ArchiveFormat* to = nullptr;  // nullptr: the counterpart of that of the input
  std::vector<std::string> bases = {};       // of input and output: may not change meanwhile
};

struct ConvertedFile {
  std::string input;
  std::string output;
  std::vector<std::string> shards;  // paths of the files of a folder `output`; empty: it is a file
  const model::ArchiveFormat* to = nullptr;
  std::uint64_t n_records = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;  // of the records on the .cfck side
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  LossTotals loss;
  std::vector<std::string> tied;         // names that a safetensors file has in its metadata only
  std::vector<std::string> notes;        // what of the input was not even read
  std::vector<std::string> input_files;  // the input, or the files of its folder
  bool is_state = false;  // training state beside a model, which rules and targets do not touch
  std::uint64_t n_lossy_before = 0;  // tensors that were lossy already and were encoded anew
  model::LeftOut left_out;           // what the format of the output cannot hold
  // For conversions to .cfck.
  std::vector<std::string> names;  // if there are rules
  std::vector<KeptLossless> kept_lossless;
  std::vector<LossyTensor> lossy;
  std::vector<std::string> unmatched_rules;

  std::vector<std::string> output_files() const {
    return shards.empty() ? std::vector<std::string>{output} : shards;
  }
};

bool is_folder(const std::string& path);

// Takes what the writer of a file, or of a folder, says of it. `result` has its format already.
void take_summary(ConvertedFile& result, const TensorArchive& archive, ArchiveSummary summary,
                  bool has_rules);

// Opens a file, or the model of a folder as one archive. Errors: those of TensorArchive::open.
Result<std::unique_ptr<TensorArchive>> open_input(const std::string& path,
                                                  const ArchiveOptions& options);

// The properties of an input that are known before it is converted.
struct ConversionInput {
  const model::ArchiveFormat* format = nullptr;
  std::uint64_t decoded_bytes = 0;
  std::vector<std::string> files = {};  // of which a folder may have several
};
Result<ConversionInput> probe_input(const std::string& path, const ReadingOptions& reading,
                                    bool only_tensors);

// Converts files of one format, at least one. Each output appears complete or not at all. A plain
// target, which must be that of all, applies to all together, and none appears before it is known
// to be met. Fails after interrupt_signal().
Result<std::vector<ConvertedFile>> convert_files(std::span<const FileConversion> conversions,
                                                 ProgressBar& bar);

}  // namespace cfck::tools
