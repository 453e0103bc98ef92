// One bin for all groups, where their own cost more than they save.
#include "codec/direct/chunk/even_bins.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "codec/direct/kernels/kernels.hpp"
#include "tests/codec/direct/direct_cases.hpp"

namespace cfck::codec {
namespace {

constexpr std::size_t kValues = 1 << 16;
constexpr std::size_t kGroups = kValues / kGroupSize;

// Normal indices of a deviation of about 100, in rows of 1024 that differ by `octaves`.
std::vector<std::int32_t> normal_indices(double octaves) {
  Random random(5);
  std::vector<std::int32_t> indices(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    const double scale = 100 * std::exp2(octaves * static_cast<double>(i / 1024 % 2));
    indices[i] =
        static_cast<std::int32_t>(static_cast<double>(random.gaussian()) * 0x1p-30 * scale);
  }
  return indices;
}

std::vector<GroupCode> assign_bins(const std::vector<std::int32_t>& indices) {
  std::vector<GroupCode> groups(kGroups);
  direct_kernels().assign_bins(indices.data(), indices.size(), groups.data());
  return groups;
}

TEST(EvenBins, OneScaleIsEven) {
  const std::vector<std::int32_t> indices = normal_indices(0);
  std::vector<GroupCode> groups = assign_bins(indices);
  ASSERT_TRUE(bins_are_even(groups.data(), groups.size()));
  even_bins(groups.data(), groups.size());
  // The mean magnitude of all values: 100 * 1.15 * sqrt(2 / pi).
  const unsigned expected = kBinOfOne + static_cast<unsigned>(4 * std::log2(92.1));
  for (const GroupCode& group : groups) {
    EXPECT_EQ(group.scale_bin, expected);
  }
}

// Exact values are taken as 0, and their groups have the minimum bin.
TEST(EvenBins, OfExactValuesIsTheLeast) {
  for (const std::int32_t first : {kExact, 1}) {
    std::vector<std::int32_t> indices(4 * kValues, kExact);
    indices[0] = first;
    std::vector<GroupCode> groups(4 * kGroups);
    direct_kernels().assign_bins(indices.data(), indices.size(), groups.data());
    ASSERT_TRUE(bins_are_even(groups.data(), groups.size()));
    even_bins(groups.data(), groups.size());
    EXPECT_EQ(groups.front().scale_bin, 1U);
    EXPECT_EQ(groups.back().scale_bin, 1U);
  }
}

TEST(EvenBins, TwoScalesAreNot) {
  const std::vector<GroupCode> groups = assign_bins(normal_indices(1));
  EXPECT_FALSE(bins_are_even(groups.data(), groups.size()));
}

TEST(EvenBins, FewGroupsGroupsOfZerosAndLargeBinsAreNot) {
  std::vector<GroupCode> groups = assign_bins(normal_indices(0));
  EXPECT_FALSE(bins_are_even(groups.data(), 255));
  EXPECT_TRUE(bins_are_even(groups.data(), 256));
  std::vector<GroupCode> with_zeros = groups;
  with_zeros[100].kind = GroupKind::kAllZero;
  EXPECT_FALSE(bins_are_even(with_zeros.data(), with_zeros.size()));
  for (GroupCode& group : groups) {
    group.scale_bin = 101;
  }
  EXPECT_FALSE(bins_are_even(groups.data(), groups.size()));
}

// Entropy of a normal distribution of deviation 92.1 * sqrt(pi / 2) indices: 8.895 bits. Bins of
// their own would take 0.02 bit more.
TEST(EvenBins, ChunksOfOneScaleTakeLittleMoreThanTheirEntropy) {
  constexpr double kStep = 1e-3;
  const std::vector<std::int32_t> indices = normal_indices(0);
  std::vector<std::byte> values(4 * kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    const float value = static_cast<float>(static_cast<double>(indices[i]) * kStep);
    std::memcpy(values.data() + 4 * i, &value, 4);
  }
  const std::vector<std::uint64_t> shape{kValues / 1024, 1024};
  DirectChunkInfo info;
  info.dtype = DType::kF32;
  info.entropy = EntropyId::kRans;
  info.shape = shape;
  info.n_elems = kValues;
  DirectParameters parameters;
  parameters.step = kStep;
  Scratch scratch;
  std::vector<std::byte> decoded(values.size());
  DirectChunk chunk;
  ASSERT_TRUE(encode_direct(info, parameters, ParameterPlace::kInline, {kStep / 2, {}}, values,
                            scratch, decoded, chunk));
  EXPECT_LT(8.0 * static_cast<double>(chunk.encoded.payload.size()) / kValues, 8.925);
  std::vector<std::byte> read(values.size());
  ASSERT_TRUE(decode_direct(info, chunk.encoded.payload, scratch, read));
  EXPECT_TRUE(read == decoded);
}

}  // namespace
}  // namespace cfck::codec
