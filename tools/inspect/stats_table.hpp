// Facts that `stats` finds out about tensors, and its table of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/inspect/tensor_errors.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/inspect/tensor_stats.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

// Whether a lossy tensor is within its maximum error, and whether the index is right.
struct BoundReport {
  bool kept = false;
  std::uint64_t n_beyond = 0;
  std::uint64_t first_beyond = 0;
  bool index_agrees = false;
};

// The result for one tensor.
struct TensorReport {
  const StoredTensor* tensor = nullptr;
  std::optional<TensorStats> stats;
  std::optional<Error> failure;  // instead of stats
  std::optional<TensorErrors> errors;
  std::optional<BoundReport> bound;
};

// True if a maximum error or a target was asked for.
bool has_request(const RecordError& error);

// Prints a line for each; columns of errors where they were measured. Requires: all have stats.
void print_stats_table(Console& console, const std::vector<const TensorReport*>& reports);

}  // namespace cfck::tools
