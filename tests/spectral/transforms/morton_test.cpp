#include "spectral/transforms/morton.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace cfck::spectral {
namespace {

using Bits = std::vector<unsigned>;
using Index = std::vector<std::uint64_t>;

// Decides bit by bit, from the highest down, which tuple comes first.
bool comes_before(const Index& a, const Index& b) {
  for (unsigned bit = 64; bit-- > 0;) {
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      const std::uint64_t of_a = a[axis] >> bit & 1;
      const std::uint64_t of_b = b[axis] >> bit & 1;
      if (of_a != of_b) return of_a < of_b;
    }
  }
  return false;
}

Index random_index(const Bits& bits, std::mt19937_64& random) {
  Index index;
  for (const unsigned n : bits) index.push_back(n == 0 ? 0 : random() >> (64 - n));
  return index;
}

template <class Code>
void expect_order(const Bits& bits) {
  std::mt19937_64 random{7};
  for (int round = 0; round < 200; ++round) {
    const Index a = random_index(bits, random);
    Index b = random_index(bits, random);
    if (round % 2 == 0 && !b.empty()) {  // neighbours: only one axis differs
      b = a;
      const std::size_t axis = random() % bits.size();
      if (bits[axis] > 0) b[axis] ^= std::uint64_t{1} << random() % bits[axis];
    }
    const Code code_a = morton_code<Code>(a, bits);
    const Code code_b = morton_code<Code>(b, bits);
    EXPECT_EQ(code_a < code_b, comes_before(a, b));
    EXPECT_EQ(code_a == code_b, a == b);
    Index found(bits.size(), 99);
    morton_index<Code>(code_a, bits, found);
    EXPECT_EQ(found, a);
  }
}

TEST(IndexBits, AreThoseOfTheLastIndex) {
  const unsigned expected[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (std::uint64_t length = 0; length < 10; ++length) {
    EXPECT_EQ(index_bits(length), expected[length]);
  }
  EXPECT_EQ(index_bits(std::uint64_t{1} << 32), 32u);
  EXPECT_EQ(index_bits((std::uint64_t{1} << 32) + 1), 33u);
  EXPECT_EQ(index_bits(~std::uint64_t{0}), 64u);
}

TEST(Morton, LastAxisHasTheLowestBit) {
  const Bits bits{2, 2};
  const auto code = [&](std::uint64_t a, std::uint64_t b) {
    return morton_code<std::uint64_t>(Index{a, b}, bits);
  };
  EXPECT_EQ(code(0, 1), 1u);
  EXPECT_EQ(code(1, 0), 2u);
  EXPECT_EQ(code(1, 1), 3u);
  EXPECT_EQ(code(0, 2), 4u);
  EXPECT_EQ(code(2, 0), 8u);
  EXPECT_EQ(code(3, 3), 15u);
}

TEST(Morton, AxesDropOut) {
  // Axis 1 has one bit: above bit 1 of the code only axes 0 and 2 go on.
  const Bits bits{3, 1, 2};
  EXPECT_EQ(morton_code<std::uint64_t>(Index{0, 0, 1}, bits), 1u);
  EXPECT_EQ(morton_code<std::uint64_t>(Index{0, 1, 0}, bits), 2u);
  EXPECT_EQ(morton_code<std::uint64_t>(Index{1, 0, 0}, bits), 4u);
  EXPECT_EQ(morton_code<std::uint64_t>(Index{0, 0, 2}, bits), 8u);
  EXPECT_EQ(morton_code<std::uint64_t>(Index{2, 0, 0}, bits), 16u);
  EXPECT_EQ(morton_code<std::uint64_t>(Index{4, 0, 0}, bits), 32u);
}

TEST(Morton, EveryTupleHasACodeOfItsOwn) {
  for (const Bits& bits : {Bits{}, Bits{0}, Bits{5}, Bits{3, 1, 2}, Bits{1, 4, 0, 2},
                           Bits{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    const unsigned n_bits = std::accumulate(bits.begin(), bits.end(), 0u);
    for (std::uint64_t code = 0; code < std::uint64_t{1} << n_bits; ++code) {
      Index index(bits.size());
      morton_index<std::uint64_t>(code, bits, index);
      for (std::size_t axis = 0; axis < bits.size(); ++axis) {
        EXPECT_LT(index[axis], std::uint64_t{1} << bits[axis]);
      }
      EXPECT_EQ(morton_code<std::uint64_t>(index, bits), code);
      EXPECT_TRUE(morton_code<Code128>(index, bits) == code);
    }
  }
}

TEST(Morton, OrderIsThatOfNaiveBits) {
  for (const Bits& bits : {Bits{64}, Bits{32, 32}, Bits{1, 63}, Bits{8, 8, 8, 8, 8, 8, 8, 8},
                           Bits{0, 20, 3, 40}, Bits{7, 7, 7, 7, 7, 7, 7, 7, 7}}) {
    expect_order<std::uint64_t>(bits);
    expect_order<Code128>(bits);
  }
}

TEST(Morton, OrderIsThatOfNaiveBitsIn128Bits) {
  for (const Bits& bits : {Bits{64, 64}, Bits{33, 32}, Bits{1, 64}, Bits(9, 8), Bits(16, 8),
                           Bits(12, 10), Bits{64, 1, 1, 1, 30, 0, 31}}) {
    expect_order<Code128>(bits);
  }
}

TEST(Morton, CodesReachTheHighestBit) {
  EXPECT_EQ(morton_code<std::uint64_t>(Index{0xffffffff, 0xffffffff}, Bits{32, 32}),
            ~std::uint64_t{0});
  const std::uint64_t all = ~std::uint64_t{0};
  EXPECT_TRUE(morton_code<Code128>(Index{all, all}, Bits{64, 64}) == ~Code128{0});
  EXPECT_TRUE(morton_code<Code128>(Index{1, 0}, Bits{1, 64}) == 2);
  EXPECT_TRUE(morton_code<Code128>(Index{0, std::uint64_t{1} << 63}, Bits{1, 64}) == Code128{1}
                                                                                         << 64);
}

TEST(BandNumbers, OfSmallBlocks) {
  using Bands = std::vector<std::uint32_t>;
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{3, 3}), (Bands{0, 1, 4, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{2, 2}), (Bands{0, 1, 2, 3}));
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{1, 7}), (Bands{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{5, 1}), (Bands{0, 1, 2, 3, 4}));
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{1}), (Bands{0}));
  EXPECT_EQ(band_numbers({}), (Bands{0}));
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{3, 0}), (Bands{}));
  // With the last index below 2 or 2 to 3 and the middle one below 2, all are there: 0 to 15.
  // Then the middle one is 2, and at last the last one 4.
  EXPECT_EQ(band_numbers(std::vector<std::uint32_t>{2, 3, 5}),
            (Bands{0, 1, 8,  9,  24, 2, 3, 10, 11, 25, 16, 17, 20, 21, 28,
                   4, 5, 12, 13, 26, 6, 7, 14, 15, 27, 18, 19, 22, 23, 29}));
}

std::vector<Index> places_in_order(const std::vector<std::uint32_t>& sides) {
  std::vector<Index> places{{}};
  for (const std::uint32_t side : sides) {
    std::vector<Index> longer;
    for (const Index& place : places) {
      for (std::uint64_t i = 0; i < side; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    }
    places = longer;
  }
  return places;
}

TEST(BandNumbers, AreRanksInNaiveOrder) {
  for (const std::vector<std::uint32_t>& sides : {std::vector<std::uint32_t>{64, 64},
                                                  {5, 5},
                                                  {7, 7},
                                                  {3, 3, 3},
                                                  {2, 3, 5},
                                                  {1, 6, 1, 11},
                                                  {4, 4, 3, 3},
                                                  {2, 3, 2, 3, 2, 3, 2, 1, 2, 2},
                                                  {64, 3, 9}}) {
    const std::vector<Index> places = places_in_order(sides);
    const std::vector<std::uint32_t> bands = band_numbers(sides);
    ASSERT_EQ(bands.size(), places.size());
    std::vector<std::uint32_t> order(bands.size(), 0);
    for (std::uint32_t place = 0; place < bands.size(); ++place) {
      ASSERT_LT(bands[place], bands.size());
      order[bands[place]] = place;
    }
    for (std::size_t band = 1; band < order.size(); ++band) {
      EXPECT_TRUE(comes_before(places[order[band - 1]], places[order[band]]));
    }
  }
}

TEST(BandRanges, AreEighthsOfOctavesAfterTheFirstSixteen) {
  for (std::uint32_t band = 0; band < 16; ++band) {
    EXPECT_EQ(band_range(band), band);
  }
  std::uint32_t expected = 15;
  for (std::uint32_t octave = 16; octave < 4096; octave *= 2) {
    for (std::uint32_t band = octave; band < 2 * octave; ++band) {
      expected += band % (octave / 8) == 0;
      EXPECT_EQ(band_range(band), expected) << band;
    }
  }
  EXPECT_EQ(n_band_ranges(1), 1u);
  EXPECT_EQ(n_band_ranges(16), 16u);
  EXPECT_EQ(n_band_ranges(17), 17u);
  EXPECT_EQ(n_band_ranges(64), 32u);
  EXPECT_EQ(n_band_ranges(4096), 80u);
}

}  // namespace
}  // namespace cfck::spectral
