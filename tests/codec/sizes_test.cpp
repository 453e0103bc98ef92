// The modes of a chunk serve their purpose: small things stay small.
#include <gtest/gtest.h>

#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

std::size_t stored(DType dtype, Pattern pattern, std::uint64_t n_elems) {
  return encode_lossless(dtype, n_elems, make_values(dtype, pattern, n_elems)).payload.size();
}

TEST(Sizes, ConstantsCostTheirValue) {
  EXPECT_EQ(stored(DType::kF64, Pattern::kConstant, 100000), 9u);
  EXPECT_EQ(stored(DType::kU8, Pattern::kZeros, 100000), 2u);
  EXPECT_EQ(stored(DType::kF6E2M3, Pattern::kZeros, 1000), 2u);
}

TEST(Sizes, RandomBitsAreStored) {
  EXPECT_EQ(stored(DType::kU8, Pattern::kRandomBits, 1000), 1001u);
  EXPECT_EQ(stored(DType::kI64, Pattern::kRandomBits, 1000), 8001u);
}

TEST(Sizes, CountersCostAlmostNothing) {
  EXPECT_LT(stored(DType::kI64, Pattern::kCounter, 512), 48u);
  EXPECT_LT(stored(DType::kI32, Pattern::kSortedIds, 4096), 1300u);
}

// 384 Gaussian values hold about 32.0 - 4.9 bits each.
TEST(Sizes, SmallTensorsShrink) {
  EXPECT_LT(stored(DType::kF32, Pattern::kGaussian, 384), 1380u);
  EXPECT_LT(stored(DType::kBF16, Pattern::kGaussian, 384), 610u);
}

TEST(Sizes, WeightsShrink) {
  const std::uint64_t n = 1u << 18;
  EXPECT_LT(8.0 * stored(DType::kBF16, Pattern::kGaussian, n) / n, 10.60);
  EXPECT_LT(8.0 * stored(DType::kF32, Pattern::kGaussian, n) / n, 26.60);
  EXPECT_LT(8.0 * stored(DType::kF16, Pattern::kGaussian, n) / n, 13.60);
}

// A quarter of the values, the mask at 0.81 bit each, and the signs of -0.
TEST(Sizes, SparseWeightsCostTheirValuesAndAMask) {
  const std::uint64_t n = 1u << 18;
  EXPECT_LT(8.0 * stored(DType::kF32, Pattern::kSparse, n) / n, 26.6 / 4 + 0.9);
  EXPECT_LT(8.0 * stored(DType::kF32, Pattern::kSparseSigned, n) / n, 26.6 / 4 + 0.9 + 0.75);
}

TEST(Sizes, PositiveValuesHaveNoSignPlane) {
  const std::uint64_t n = 1u << 16;
  const std::size_t both = stored(DType::kBF16, Pattern::kGaussian, n);
  EXPECT_EQ(both - stored(DType::kBF16, Pattern::kPositive, n), n / 8);
}

// A quantised or ternary weight costs what distinguishes it from the few others.
TEST(Sizes, RepeatedValuesAreFoundInFloats) {
  const std::uint64_t n = 1u << 16;
  std::vector<std::byte> values = make_values(DType::kF32, Pattern::kGaussian, n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto sign = static_cast<unsigned>(values[4 * i + 3]) & 0x80u;
    const std::uint32_t third = static_cast<unsigned>(values[4 * i]) % 3;
    const std::uint32_t value = third == 0 ? 0 : 0x3d4ccccdu | sign << 24;
    for (unsigned byte = 0; byte < 4; ++byte) {
      values[4 * i + byte] = static_cast<std::byte>(value >> (8 * byte));
    }
  }
  EXPECT_LT(8.0 * static_cast<double>(encode_lossless(DType::kF32, n, values).payload.size()) / n,
            7.0);
}

TEST(Sizes, ZeroGroupsAreFree) {
  const std::uint64_t n = 1u << 16;
  const std::size_t half = stored(DType::kF32, Pattern::kGaussian, n / 2);
  EXPECT_LT(stored(DType::kF32, Pattern::kZeroGroups, n), half + 200);
}

}  // namespace
}  // namespace cfck::codec
