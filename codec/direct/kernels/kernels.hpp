// The passes of the direct codec over a chunk, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "cfck/dtype.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/error_totals.hpp"

namespace cfck::codec {

struct RansLanes;
struct RansDecodeTable;

// The steps of the values of a chunk. Without `row_steps` all have `step` and `bound`.
struct ValueSteps {
  double step = 0;
  double bound = 0;
  const std::uint16_t* row_steps = nullptr;
  const double* row_bounds = nullptr;  // encoder only
  std::uint64_t n_rows = 0;
  std::uint64_t row_values = 1;
  std::uint64_t first_value = 0;  // of the chunk in its record
  bool has_float_products = false;
};

// The positions at which a split writes, or a merge reads, the streams and raw bytes; pointers are
// advanced.
struct DirectSplit {
  std::uint8_t* streams[kDirectStreams] = {};
  std::byte* raw = nullptr;
  std::int32_t* escapes = nullptr;  // indices, in scan order
  std::byte* exact = nullptr;       // values, with quantise_symbols()
};

struct DirectMerge {
  const std::uint8_t* streams[kDirectStreams] = {};
  const std::byte* raw = nullptr;
  const std::int32_t* escapes = nullptr;
  std::size_t n_escapes = 0;         // left
  const std::byte* exact = nullptr;  // values, with merge_values() and decode_values()
};

struct QuantisedTotals {
  ErrorTotals errors;
  std::size_t n_zeros = 0;  // values that are +0 or -0
};

struct DirectKernels {
  // Computes the indices of the values, kExact where the decoded value would break the bound, and
  // the decoded values.
  QuantisedTotals (*quantise)(DType dtype, const std::byte* values, std::size_t n_values,
                              const ValueSteps& steps, std::int32_t* indices, std::byte* decoded);
  // Does what quantise(), assign_bins() and split_symbols() do, in one pass, and stores the values
  // that are exact. Needs space for as many raw bytes, indices and values as there can be.
  QuantisedTotals (*quantise_symbols)(DType dtype, const std::byte* values, std::size_t n_values,
                                      const ValueSteps& steps, std::byte* decoded,
                                      GroupCode* groups, DirectSplit& to);
  // The result for kExact is unspecified.
  void (*dequantise)(DType dtype, const std::int32_t* indices, std::size_t n_values,
                     const ValueSteps& steps, std::byte* values);
  // Indices have space for a whole number of groups, with zeros after the last value.
  void (*assign_bins)(const std::int32_t* indices, std::size_t n_values, GroupCode* groups);
  void (*split)(const std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                DirectSplit& to);
  // False if symbols and escapes do not match, or a symbol is invalid.
  bool (*merge)(std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                DirectMerge& from);
  // Splits for the stage `rans`: one symbol for each index, all in the first stream. All symbols
  // below 32 are valid.
  void (*split_symbols)(const std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                        DirectSplit& to);
  bool (*merge_symbols)(std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                        DirectMerge& from);
  // Merges straight to values, where the order is that of storage. As many escapes are exact as
  // there are exact values. Requires: low bits are at most kMaxSafeLowBits.
  bool (*merge_values)(DType dtype, std::size_t n_values, const GroupCode* groups,
                       const ValueSteps& steps, DirectMerge& from, std::byte* values);
  // Merges whole groups whose symbols the lanes still hold; `tables` are those of the codec. False
  // also if the lanes run out of words.
  bool (*decode_values)(DType dtype, std::size_t n_groups, const GroupCode* groups,
                        const ValueSteps& steps, RansLanes& lanes,
                        const RansDecodeTable* const* tables, DirectMerge& from, std::byte* values);
  // True if `step` allows them: products with small indices that are right without
  // binary64.
  bool (*has_float_products)(double step);
  // Turns indices of whole kernels into residuals, and back; kExact and kMasked stay. False if an
  // index is out of range.
  void (*predict)(const std::int16_t* coefficients, unsigned kernel_size, std::size_t n_kernels,
                  std::int32_t* indices);
  bool (*restore)(const std::int16_t* coefficients, unsigned kernel_size, std::size_t n_kernels,
                  std::int32_t* indices);
  // Lowers `min` to the minimum finite value, and raises `max` to the maximum.
  void (*extend_range)(DType dtype, const std::byte* values, std::size_t n, double& min,
                       double& max);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const DirectKernels& direct_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const DirectKernels& direct_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec
