// The passes of the spectral codec over a chunk, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "cfck/dtype.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/entropy/rans/kernels/kernels.hpp"
#include "codec/error_totals.hpp"
#include "spectral/kernels/quantisers.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Bin C stands for indices of a mean magnitude from 2^((C-29)/4) up to 2^((C-28)/4).
inline constexpr unsigned kMaxSpectralBin = 125;

// Up to this many low bits, all integers that occur are exact in vectors of floats.
inline constexpr unsigned kMaxVectorLowBits = 16;

// The cost of each symbol, in squared steps, by quantiser.
struct SymbolWeights {
  alignas(64) float of[2][kRansSymbols] = {};
};

// Finds indices for values: for each lane the path through the trellis with the minimum sum of
// squared errors and weighted bits (Viterbi 1967; trellis-coded quantisation: Marcellin and Fischer
// 1990; with indices for both quantisers: Schwarz et al. 2021). Groups that are not all zero are
// *coded*; the results for them are stored without gaps.
struct TrellisSearch {
  const float* values = nullptr;  // in steps; groups of 128 except the last
  std::size_t n_values = 0;
  const GroupCode* groups = nullptr;
  const SymbolWeights* weights = nullptr;  // by table (SymbolCode); nullptr: nothing
  unsigned n_states = 8;                   // 1, 4, 8 or 64
  unsigned n_lanes = 32;                   // 32, 64 or 128
  // Results. All have space for whole groups.
  std::uint8_t* symbols = nullptr;
  std::uint8_t* quantisers = nullptr;
  std::int32_t* indices = nullptr;  // of groups with low bits only; 0 for escapes
  // Space for decision_bytes(n_states) for each value, and a multiple of as many.
  std::uint8_t* decisions = nullptr;
};

// A column of a block of rows, in the order of the search.
struct FeedbackColumn {
  std::uint16_t scale_bin = 0;
  float scale = 1;  // of its step
  float inverse = 1;
};

// The value that stands for an escape among found indices.
inline constexpr std::int32_t kEscapedIndex = INT32_MIN;
// An index is committed once this many more have been tried after it.
inline constexpr std::size_t kFeedbackDepth = 32;

// Finds indices for a block of rows with error compensation: the target of each column is its value
// plus what the errors of those before it add (spectral/feedback/error_feedback.hpp). Every path
// through the trellis propagates its own errors until they are committed (per-survivor processing:
// Raheli et al. 1995).
struct FeedbackSearch {
  std::size_t n_columns = 0;
  unsigned n_rows = 0;
  unsigned n_states = 8;                    // 1, 4 or 8
  const FeedbackColumn* columns = nullptr;  // bins have at most kMaxVectorLowBits low bits
  const float* coefficients = nullptr;      // [n_columns, n_columns], below the diagonal
  const float* values = nullptr;            // in steps, [n_columns, n_rows]
  // Number of lanes of each row: fold i has the columns from fold_begins[i] on, and starts in
  // states start_states[i * n_rows + row].
  unsigned n_folds = 1;
  const std::size_t* fold_begins = nullptr;  // n_folds + 1
  const std::uint8_t* start_states = nullptr;
  // Results: indices or kEscapedIndex, and the errors of levels, in steps times their scale.
  std::int32_t* indices = nullptr;  // [n_columns, n_rows]
  float* errors = nullptr;          // [n_columns, n_rows]
  float* workspace = nullptr;       // for n_columns * 16
  // Works value by value, as the reference that vectors must equal.
  bool use_reference = false;
};

// The input of the decoders' merge: symbols and planes of the coded groups.
struct SpectralMerge {
  const GroupCode* groups = nullptr;
  std::size_t n_values = 0;
  unsigned n_states = 8;
  unsigned n_lanes = 32;
  const std::uint8_t* symbols = nullptr;  // readable for a whole group after the last
  const std::byte* path = nullptr;
  const std::byte* raw = nullptr;
  const std::int32_t* escapes = nullptr;  // levels
  std::size_t n_escapes = 0;              // left
};

struct SpectralKernels {
  void (*search)(const TrellisSearch& search);
  void (*search_feedback)(const FeedbackSearch& search);
  // Writes the low bits of found indices, from the lowest up: parity bits; and the others, from the
  // highest down. Both have space for whole planes.
  void (*write_planes)(const TrellisSearch& search, std::byte* path, std::byte* raw);
  // Loads values as doubles, 0 for those that are not finite.
  void (*load_values)(DType dtype, const std::byte* values, std::size_t n, double* to);
  // Computes the input of quantisation: coefficients in steps, clamped to ±2^30. Without `steps`
  // all have `step`.
  void (*divide)(const double* coefficients, const double* steps, double step, std::size_t n,
                 float* in_steps);
  // Finds the bins of groups by their mean magnitudes, and which are all zero.
  void (*assign_bins)(const float* in_steps, std::size_t n_values, unsigned n_states,
                      GroupCode* groups);
  // Rounds products with `factor`, clamped to ±2^29, to nearest, half to even.
  void (*round_indices)(const float* in_steps, std::size_t n, float factor, std::int32_t* indices);
  // Adds the errors of the finite values; returns how many values may be off by `bound` or more, or
  // are not finite, or decoded as something that is not.
  std::size_t (*compare)(DType dtype, const std::byte* values, const std::byte* decoded,
                         std::size_t n, double bound, ErrorTotals& totals);

  // Computes levels times `step`. False if symbols and escapes do not match, or a symbol is
  // invalid.
  bool (*merge_floats)(SpectralMerge& from, float step, float* values);
  bool (*merge_doubles)(SpectralMerge& from, double step, double* values);
  // Merges symbols that the lanes still hold, without raw bits: `tables` are those of the
  // codec's groups. False also if the lanes run out of words. nullptr at levels that gain
  // nothing by it.
  bool (*decode_floats)(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                        const Trellis& trellis, SpectralMerge& from, float step, float* values);
  // Writes the sums of `base` and each offset, clamped to 1 to `most`.
  void (*clamp_bins)(std::int32_t base, const std::int32_t* offsets, std::size_t n,
                     std::int32_t most, std::uint8_t* bins);
  // Stores values of a dtype other than F64, or of F64; NaN becomes 0.
  void (*store_floats)(DType dtype, const float* values, std::size_t n, std::byte* to);
  void (*store_doubles)(const double* values, std::size_t n, std::byte* to);
  // Replaces NaN by 0 in place.
  void (*clear_float_nans)(float* values, std::size_t n);
  void (*clear_double_nans)(double* values, std::size_t n);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const SpectralKernels& spectral_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const SpectralKernels& spectral_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::spectral
