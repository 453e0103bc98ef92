#include "spectral/layout/row_blocks.hpp"

#include <algorithm>
#include <numeric>

#include "codec/entropy/rans/kernels/kernels.hpp"
#include "spectral/kernels/quantisers.hpp"

namespace cfck::spectral {
namespace {

std::vector<std::uint32_t> sorted_by(const std::vector<std::int32_t>& bins) {
  std::vector<std::uint32_t> sorted(bins.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return bins[a] < bins[b]; });
  return sorted;
}

}  // namespace

RowBlocks::RowBlocks(RowBins bins) : bins_(std::move(bins)) {
  rows_ = sorted_by(bins_.bases);
  columns_ = sorted_by(bins_.offsets);
  n_lanes_ = spectral_lane_sets(rows_.size() * columns_.size()) * kRansLanes;
  unsigned n_rows = n_lanes_;
  for (std::size_t row = 0; row < rows_.size(); row += n_rows) {
    while (n_rows > rows_.size() - row) {
      n_rows /= 2;
    }
    blocks_.push_back({row * columns_.size(), row, n_rows});
  }
}

const RowBlock& RowBlocks::block_of(std::size_t number) const {
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), number,
      [](std::size_t wanted, const RowBlock& block) { return wanted < block.first; });
  return *(after - 1);
}

unsigned RowBlocks::bin_of(std::size_t number) const {
  const RowBlock& block = block_of(number);
  const std::uint32_t row = rows_[block.first_row + block.n_rows / 2];
  const std::uint32_t column = columns_[(number - block.first) / block.n_rows];
  return static_cast<unsigned>(
      std::clamp(bins_.bases[row] + bins_.offsets[column], 1, static_cast<int>(kMaxSpectralBin)));
}

}  // namespace cfck::spectral
