// The order in which the indices of a chunk are grouped (codec/direct/spec.md, section 5.3): that
// of storage, or by predicted bin.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "codec/common/bin_codes.hpp"
#include "codec/common/groups.hpp"
#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

// Predicts the bins of n values of a record, the first of which is `first_value`.
void predict_bins(const DirectGeometry& geometry, const ScaleField& field,
                  std::uint64_t first_value, std::size_t n_values, std::uint8_t* bins);

// The order of the indices of a chunk except kMasked: stably by bin.
class BinOrder {
 public:
  // Indices and bins must outlive it. Without `has_masked` no index is kMasked; else the indices
  // need only say which are.
  BinOrder(std::span<const std::int32_t> indices, const std::uint8_t* bins, bool has_masked);

  std::size_t n_unmasked() const { return ends_.back(); }
  // Groups take the bin of their middle index.
  void set_groups(GroupCode* groups) const;
  // One of these is called, once: to put indices in this order, or back where they belong.
  void sort(std::int32_t* sorted);
  void unsort(const std::int32_t* sorted, std::int32_t* indices);

 private:
  // The values of a chunk in four parts, which are counted and moved side by side: each
  // alone waits for its own counters.
  static constexpr std::size_t kParts = 4;
  using BinCounts = std::array<std::uint32_t, kMaxDirectBin + 1>;

  template <class Action>
  void each(Action&& action) const;
  template <bool has_masked, class Action>
  void each_unmasked(Action&& action) const;

  std::span<const std::int32_t> indices_;
  const std::uint8_t* bins_;
  bool has_hidden_;
  std::array<BinCounts, kParts> next_;  // where the next index of each bin goes
  BinCounts ends_;
};

// Collects the indices that are not kMasked, in the order of storage, and puts them back.
std::size_t gather_unmasked(std::span<const std::int32_t> indices, std::int32_t* shown);
void spread_unmasked(const std::int32_t* shown, std::span<std::int32_t> indices);

// Calls `action` with the position of each index that is kExact, of which there are n_exact, in
// order.
template <class Action>
void each_exact(std::span<const std::int32_t> indices, std::size_t n_exact, Action&& action) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t first = 0; n_exact != 0 && first < indices.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, indices.size() - first);
    std::uint32_t n_found = 0;
    for (std::size_t i = first; i < first + n; ++i) {
      n_found += indices[i] == kExact ? 1u : 0u;
    }
    for (std::size_t i = first; n_found != 0 && n_exact != 0 && i < first + n; ++i) {
      if (indices[i] == kExact) {
        action(i);
        --n_exact;
      }
    }
  }
}

}  // namespace cfck::codec
