// The index of a file as rows, for `show`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "model/folder/model_files.hpp"
#include "tools/input/reading_options.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {

// How a tensor is stored in a file that has a base.
enum class AgainstBase {
  kNo,          // by itself
  kUnchanged,   // as equal to that of the base
  kDifference,  // as the difference from that of the base
};
// Returns "", "unchanged" or "difference".
std::string_view against_base_name(AgainstBase how);

struct TensorRow {
  std::string name;
  bool hidden = false;
  std::string kind;  // "chunked", "packed", "alias", "duplicate"; "plain" outside of .cfck files
  std::string shares_with;  // the name of the base
  std::string dtype;
  Shape shape;
  std::string codec;  // "unknown(9)" for one that this version does not know
  std::string entropy;
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  AgainstBase against_base = AgainstBase::kNo;
  std::optional<std::uint64_t> n_changed;  // values that differ from the base; nullopt: not counted
  std::string digest;                      // hexadecimal; empty where it is not in the file
  std::optional<RecordError> error;

  double bits_per_weight() const;
  double ratio() const;  // 0 where nothing is stored
};

struct Listing {
  std::string path;
  std::string_view format;     // "cfck", "safetensors"
  std::string format_version;  // empty where files have none, nor generations and dead bytes
  std::uint64_t generation = 0;
  std::uint64_t dead_bytes = 0;
  std::uint64_t file_bytes = 0;
  bool needs_base = false;
  bool misses_base = false;  // the base was not found
  std::string base_name;     // empty also for a base that was in memory
  Metadata metadata;
  std::vector<TensorRow> rows;  // in file order
};

// Sums over rows. Elements and decoded bytes of hidden records are not included, since they cannot
// be read by name; their stored bytes are.
struct RowTotals {
  std::uint64_t n_records = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  LossTotals loss;

  void add(const TensorRow& row);
  double bits_per_weight() const;
};

// How many tensors are stored in which way, without those that share bytes with others.
struct BaseTotals {
  std::uint64_t n_unchanged = 0;    // equal to those of the base
  std::uint64_t n_differences = 0;  // others that are stored against the base
  std::uint64_t n_whole = 0;        // stored by themselves

  void add(const TensorRow& row);
  std::string text() const;  // "40 unchanged, 108 as differences"
};

// Reads what a file says about its tensors, in any format.
Result<Listing> list_tensors(const std::string& path, const ReadingOptions& reading);
// Lists the file `paths[number]` of a model, without the tensors that its index does not
// take from it: these are added to `strays`. Errors: also those of tensors_of_model().
Result<Listing> list_tensors(const model::ModelFiles& files, std::size_t number,
                             const ReadingOptions& reading,
                             std::vector<model::StrayTensor>& strays);

// Appends the row as a JSON object; with `shard`, if that is not empty. Written by
// hand: trees of 10,000 rows take longer than reading the file.
void append_row_json(std::string& text, const TensorRow& row, const std::string& shard = {});
void add_totals_json(nlohmann::ordered_json& json, const RowTotals& totals);
std::string hexadecimal(const Digest& digest);

}  // namespace cfck::tools
