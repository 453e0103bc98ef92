// The commands that read files, and those that repair them. Each returns its exit code; with
// several files, the worst (worse_exit_code). A folder of several models stands for all of them.
#pragma once

#include <string>
#include <vector>

#include "tools/input/reading_options.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

// Order of the rows of `show`.
enum class SortKey { kFile, kName, kDType, kCodec, kElems, kRaw, kStored, kRatio, kBits };

struct ShowOptions {
  std::vector<std::string> paths;
  SortKey sort = SortKey::kFile;
  std::vector<std::string> filters;  // shell patterns; a row has to match one of them
  bool strict = false;               // shards that no index names are errors
  bool changes = false;              // count the values that differ from the base
  ReadingOptions reading;
};
int run_show(const ShowOptions& options, Console& console);

struct VerifyOptions {
  std::vector<std::string> paths;
  bool deep = false;
  bool strict = false;  // shards that no index names are errors
  unsigned threads = 0;
  ReadingOptions reading;
};
int run_verify(const VerifyOptions& options, Console& console);

struct DigestOptions {
  std::vector<std::string> paths;
  bool per_tensor = false;
  ReadingOptions reading;
};
int run_digest(const DigestOptions& options, Console& console);

struct StatsOptions {
  std::string path;
  std::vector<std::string> patterns;  // names or shell patterns; none: all tensors
  std::string reference;              // to compare with; empty: nothing
  bool common = false;                // pass over tensors that only one side has
  bool histograms = false;            // all figures of each tensor, not a line of a table
  bool ascii = false;
  ReadingOptions reading;
};
// Returns kExitDifference where tensors cannot be compared with the reference.
int run_stats(const StatsOptions& options, Console& console);

struct BandsOptions {
  std::string path;
  std::vector<std::string> patterns;  // names or shell patterns; none: all tensors
  std::string reference;              // the original; empty: errors are estimated
  ReadingOptions reading;
};
// Returns kExitDifference where tensors cannot be compared with the reference.
int run_bands(const BandsOptions& options, Console& console);

struct DiffOptions {
  std::string a;
  std::string b;
  bool fast = false;  // digests only: no errors
  ReadingOptions reading;
};
// Returns kExitOk for equal tensors and metadata, else kExitDifference.
int run_diff(const DiffOptions& options, Console& console);

struct ExtractOptions {
  std::string path;
  std::string name;
  std::string output;  // "-" is standard output
  bool force = false;
  ReadingOptions reading;
};
int run_extract(const ExtractOptions& options, Console& console);

struct CompactOptions {
  std::vector<std::string> paths;
  unsigned threads = 0;
  ReadingOptions reading;
};
int run_compact(const CompactOptions& options, Console& console);

struct RepairOptions {
  std::string damaged;
  std::string output;  // must not exist
  unsigned threads = 0;
  ReadingOptions reading;
};
int run_repair(const RepairOptions& options, Console& console);

}  // namespace cfck::tools
