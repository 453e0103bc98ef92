// The order in which the coefficients of a chunk are grouped and coded
// (spectral/spec.md, section 5.1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "codec/codec.hpp"
#include "spectral/layout/row_blocks.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Memory comes from `scratch` and stays in use. Requires: the chunk is whole rows of kernels if
// the order is that of row blocks.
class CoefficientOrdering {
 public:
  CoefficientOrdering(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                      std::uint64_t first_value, std::size_t n_values, Scratch& scratch);

  bool is_storage() const { return kind_ == Kind::kStorage; }
  // For the orders with a scale field: groups take the bin of their middle coefficient.
  void set_groups(GroupCode* groups) const;
  // The blocks of the order of row blocks, else nullptr.
  const RowBlocks* row_blocks() const { return row_blocks_ ? &*row_blocks_ : nullptr; }
  // One of these is called, once: to put coefficients in this order, or back. Reads of `ordered`
  // may end kSpareBytes after it.
  static constexpr std::size_t kSpareBytes = 64;
  template <class T>
  void gather(const T* coefficients, T* ordered);
  template <class T>
  void scatter(const T* ordered, T* coefficients);

 private:
  enum class Kind : std::uint8_t { kStorage, kTaps, kWholeRows, kPlaces, kBins, kRows, kRowBlocks };
  // The values of a chunk in four parts, which are counted and moved side by side: each
  // alone waits for its own counters.
  static constexpr std::size_t kParts = 4;
  using BinCounts = std::array<std::uint32_t, kMaxSpectralBin + 1>;

  // Places of a row that share an offset, the same in all rows.
  struct Run {
    std::int32_t offset = 0;
    std::uint32_t n = 0;
  };

  void count_bins();
  bool has_runs(const RowBins& rows);
  void count_runs();
  void sort_bands(std::uint32_t* places) const;
  void sort_rows();
  // Calls action(number in the order, place in the chunk).
  template <class Action>
  void each(Action&& action);
  template <class Action>
  void each_by_bin(Action&& action);
  template <class Action>
  void each_run(std::int32_t base, Action&& action);
  template <class T>
  void gather_runs(const T* coefficients, T* ordered);
  template <class T>
  void scatter_runs(const T* ordered, T* coefficients);
  template <class Action>
  void each_by_tap(Action&& action) const;

  const SpectralGeometry& geometry_;
  const std::uint64_t first_value_;
  const std::size_t n_values_;
  Kind kind_ = Kind::kStorage;
  const std::uint8_t* bins_ = nullptr;
  const std::uint32_t* places_ = nullptr;
  std::array<BinCounts, kParts> next_;  // where the next coefficient of each bin goes
  BinCounts ends_;
  std::optional<RowBlocks> row_blocks_;
  std::vector<std::uint32_t> rows_;     // band by band
  std::vector<std::int32_t> bases_;     // by row
  std::vector<std::int32_t> offsets_;   // by place in a row
  std::vector<Run> runs_;               // by offset
  std::vector<std::uint32_t> of_runs_;  // places in a row, run after run
};

}  // namespace cfck::spectral
