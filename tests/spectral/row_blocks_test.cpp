// Blocks of rows: the place, lane and bin of each coefficient.
#include "spectral/layout/row_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "codec/entropy/rans/kernels/kernels.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/quantisers.hpp"

namespace cfck::spectral {
namespace {

RowBins random_bins(std::size_t n_rows, std::size_t n_columns, std::mt19937& random) {
  RowBins bins;
  for (std::size_t i = 0; i < n_rows; ++i) {
    bins.bases.push_back(static_cast<std::int32_t>(random() % 12) + 20);
  }
  for (std::size_t j = 0; j < n_columns; ++j) {
    bins.offsets.push_back(static_cast<std::int32_t>(random() % 9) - 4);
  }
  return bins;
}

// Sorted by bin; those of one bin keep their order.
void expect_sorted(const std::vector<std::uint32_t>& sorted,
                   const std::vector<std::int32_t>& bins) {
  ASSERT_EQ(sorted.size(), bins.size());
  std::vector<bool> seen(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    ASSERT_LT(sorted[i], sorted.size());
    ASSERT_FALSE(seen[sorted[i]]);
    seen[sorted[i]] = true;
    if (i > 0) {
      const std::int32_t before = bins[sorted[i - 1]];
      const std::int32_t here = bins[sorted[i]];
      ASSERT_TRUE(before < here || (before == here && sorted[i - 1] < sorted[i]));
    }
  }
}

// Blocks one after the other, as large as they can be.
void expect_blocks(const RowBlocks& blocks, std::size_t n_rows, std::size_t n_columns) {
  std::size_t row = 0;
  unsigned last = blocks.n_lanes();
  for (const RowBlock& block : blocks.blocks()) {
    EXPECT_EQ(block.first_row, row);
    EXPECT_EQ(block.first, row * n_columns);
    EXPECT_NE(block.n_rows, 0u);
    EXPECT_EQ(block.n_rows & (block.n_rows - 1), 0u);
    EXPECT_LE(block.n_rows, last);
    EXPECT_TRUE(block.n_rows == blocks.n_lanes() || 2 * block.n_rows > n_rows - row);
    last = block.n_rows;
    row += block.n_rows;
  }
  EXPECT_EQ(row, n_rows);
}

void expect_order(const RowBlocks& blocks, const RowBins& bins) {
  const std::size_t n_rows = bins.bases.size();
  const std::size_t n_columns = bins.offsets.size();
  std::vector<std::size_t> place_of(n_rows * n_columns, SIZE_MAX);
  std::vector<bool> seen(place_of.size());
  blocks.each([&](std::size_t number, std::size_t place) {
    ASSERT_LT(number, place_of.size());
    ASSERT_LT(place, place_of.size());
    ASSERT_EQ(place_of[number], SIZE_MAX);
    ASSERT_FALSE(seen[place]);
    place_of[number] = place;
    seen[place] = true;
  });
  for (const RowBlock& block : blocks.blocks()) {
    const unsigned n_folds = blocks.n_lanes() / block.n_rows;
    std::vector<std::size_t> owners(blocks.n_lanes(), SIZE_MAX);  // of lanes
    for (std::size_t j = 0; j < n_columns; ++j) {
      for (unsigned i = 0; i < block.n_rows; ++i) {
        const std::size_t number = block.first + j * block.n_rows + i;
        const std::size_t row = blocks.rows()[block.first_row + i];
        ASSERT_EQ(place_of[number], row * n_columns + blocks.columns()[j]);
        std::size_t& owner = owners[number % blocks.n_lanes()];
        const std::size_t fold = row * n_folds + j % n_folds;
        ASSERT_TRUE(owner == SIZE_MAX || owner == fold);
        owner = fold;
        const std::uint32_t middle = blocks.rows()[block.first_row + block.n_rows / 2];
        const std::int32_t sum = bins.bases[middle] + bins.offsets[blocks.columns()[j]];
        ASSERT_EQ(blocks.bin_of(number), static_cast<unsigned>(sum));
      }
    }
  }
}

TEST(RowBlocks, EveryPlaceOnceAndEachLaneInOneRow) {
  std::mt19937 random(1);
  for (const std::size_t n_rows : {1, 2, 16, 31, 32, 33, 63, 64, 65, 127, 170, 682}) {
    for (const std::size_t n_columns : {1, 9, 144, 1536}) {
      const RowBins bins = random_bins(n_rows, n_columns, random);
      const RowBlocks blocks(bins);
      EXPECT_EQ(blocks.n_columns(), n_columns);
      EXPECT_EQ(blocks.n_lanes(), spectral_lane_sets(n_rows * n_columns) * kRansLanes);
      expect_sorted(blocks.rows(), bins.bases);
      expect_sorted(blocks.columns(), bins.offsets);
      expect_blocks(blocks, n_rows, n_columns);
      expect_order(blocks, bins);
    }
  }
}

TEST(RowBlocks, BinsAreWithinRange) {
  RowBins bins;
  bins.bases = {-30000, 1, 30000, 60000};
  bins.offsets = {-30000, 0, 124, 30000};
  const RowBlocks blocks(bins);
  ASSERT_EQ(blocks.blocks().size(), 1u);
  EXPECT_EQ(blocks.rows()[2], 2u);  // the middle of four
  for (std::size_t number = 0; number < 16; ++number) {
    EXPECT_EQ(blocks.bin_of(number), number < 4 ? 1u : kMaxSpectralBin);
  }
}

}  // namespace
}  // namespace cfck::spectral
