// Chunks in segments (codec/entropy/rans.md, section 6).
#include "codec/common/segments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "codec/direct/chunk/header.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

TEST(Segments, HaveEqualNumbersOfGroupsButTheLast) {
  for (std::size_t n_groups = 1; n_groups < 9000; n_groups += 1 + n_groups / 64) {
    for (const std::size_t n_values : {n_groups * kGroupSize, n_groups * kGroupSize - 127}) {
      const unsigned n = n_segments_for(n_groups, kSegmentGroups);
      ASSERT_LE(n, kMaxSegments);
      const SegmentedGroups groups(n_values, n);
      ASSERT_TRUE(groups.have_all_some());
      std::size_t next = 0;
      for (unsigned i = 0; i < n; ++i) {
        ASSERT_EQ(groups.first_value(i), next);
        ASSERT_GT(groups.n_values(i), 0U);
        ASSERT_TRUE(i + 1 == n || groups.n_values(i) == groups.n_values(0));
        ASSERT_TRUE(n == kMaxSegments || groups.n_values(i) <= kSegmentGroups * kGroupSize);
        next += groups.n_values(i);
      }
      ASSERT_EQ(next, n_values);
    }
  }
}

TEST(Segments, MoreThanThereAreGroupsForAreNone) {
  EXPECT_TRUE(SegmentedGroups(3 * kGroupSize, 3).have_all_some());
  EXPECT_FALSE(SegmentedGroups(3 * kGroupSize, 4).have_all_some());
  EXPECT_FALSE(SegmentedGroups(4 * kGroupSize, 3).have_all_some());  // 2, 2, 0
  EXPECT_TRUE(SegmentedGroups(4 * kGroupSize + 1, 3).have_all_some());
}

unsigned n_lossless_segments(const ChunkInfo& info, ByteView payload) {
  const auto header = parse_chunk_header(info, payload);
  return header && header->mode == ChunkMode::kSymbols ? header->symbols.n_segments : 0;
}

TEST(Segments, OfLosslessChunksFollowFromTheirGroups) {
  struct Expected {
    std::uint64_t n_elems;
    unsigned n_segments;
  };
  for (const auto& [n, expected] :
       {Expected{1 << 16, 1}, Expected{(1 << 16) + 1, 2}, Expected{1 << 18, 4},
        Expected{1 << 20, 16}, Expected{(1 << 20) + 1, 16}}) {
    const std::vector<std::byte> values = make_values(DType::kBF16, Pattern::kGaussian, n);
    const ChunkInfo info = chunk_info(DType::kBF16, n, EntropyId::kRans);
    const auto encoded = encode_lossless(DType::kBF16, n, values, EntropyId::kRans);
    EXPECT_EQ(n_lossless_segments(info, encoded.payload), expected) << n;
    const ChunkInfo zstd = chunk_info(DType::kBF16, n, EntropyId::kZstd);
    const auto other = encode_lossless(DType::kBF16, n, values, EntropyId::kZstd);
    EXPECT_EQ(n_lossless_segments(zstd, other.payload), 1U) << n;
  }
}

// They would have to be decoded in one piece.
TEST(Segments, ChunksWithMasksHaveNone) {
  constexpr std::uint64_t kValues = 1 << 17;
  const std::vector<std::byte> values = make_values(DType::kF32, Pattern::kSparseSigned, kValues);
  const ChunkInfo info = chunk_info(DType::kF32, kValues, EntropyId::kRans);
  const auto payload = encode_lossless(DType::kF32, kValues, values, EntropyId::kRans).payload;
  const auto header = parse_chunk_header(info, payload);
  ASSERT_TRUE(header);
  EXPECT_NE(header->symbols.flags & kHasMask, 0);
  EXPECT_EQ(header->symbols.n_segments, 1U);
}

// Escapes, bin escapes and groups of zeros in some segments, and none in others.
TEST(Segments, RestoreWhatOnlySomeOfThemHave) {
  constexpr std::uint64_t kValues = 5 * kSegmentGroups * kGroupSize - 3;
  std::vector<std::byte> values(4 * kValues);
  const auto put = [&](std::size_t i, float value) { std::memcpy(&values[4 * i], &value, 4); };
  Random random(17);
  for (std::size_t i = 0; i < kValues; ++i) {
    put(i, 1 + static_cast<float>(random.next() % 1000000) * 1e-6F);
  }
  put(70'000, 1e-30F);
  std::memset(&values[4 * 128 * 600], 0, 4 * 128 * 5);
  for (std::size_t i = 128 * 2000; i < 128 * 2001; ++i) {
    put(i, 1e20F);
  }
  const ChunkInfo info = chunk_info(DType::kF32, kValues, EntropyId::kRans);
  const auto payload = encode_lossless(DType::kF32, kValues, values, EntropyId::kRans).payload;
  const auto header = parse_chunk_header(info, payload);
  ASSERT_TRUE(header);
  const auto& segments = header->symbols.segments;
  ASSERT_EQ(header->symbols.n_segments, 5U);
  EXPECT_EQ(segments[0].n_escapes, 0U);
  EXPECT_EQ(segments[1].n_escapes, 1U);
  EXPECT_EQ(segments[0].n_bin_escapes, 0U);
  EXPECT_EQ(segments[3].n_bin_escapes + segments[4].n_bin_escapes, 2U);
  Scratch scratch;
  std::vector<std::byte> decoded(values.size());
  ASSERT_TRUE(find_decoder(CodecId::kLossless)->decode(info, payload, scratch, decoded));
  EXPECT_EQ(decoded, values);
}

TEST(Segments, OfDirectChunksKeepTheBound) {
  constexpr double kBound = 0.01;
  constexpr std::uint64_t kValues = 3 * kSegmentGroupsOfFewBits * kGroupSize + 5;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    auto values = make_spread(dtype, Spread::kLaplace, kValues, 0.05, 3);
    const std::size_t size = values.size() / kValues;
    put_double(dtype, std::numeric_limits<double>::infinity(), &values[size * (2 * kValues / 3)]);
    const Shape shape = {kValues};
    DirectParameters parameters;
    parameters.step = 2 * kBound * (1 - 0x1p-20);
    const DirectChunkInfo info{dtype, EntropyId::kRans, shape, 0, kValues, &parameters};
    Scratch scratch;
    std::vector<std::byte> decoded(values.size());
    std::vector<std::byte> again(values.size());
    DirectChunk chunk;
    ASSERT_TRUE(encode_direct(info, parameters, ParameterPlace::kInline, {kBound, {}}, values,
                              scratch, decoded, chunk));
    const ByteView payload = chunk.encoded.payload;
    const auto header = parse_direct_header(info, *direct_geometry(shape), payload);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->n_segments, 4U);
    EXPECT_GE(header->segments[2].n_exact, 1U);
    ASSERT_TRUE(decode_direct(info, payload, scratch, again));
    EXPECT_EQ(again, decoded);
    for (std::size_t i = 0; i < kValues; ++i) {
      const double x = double_of(dtype, &values[size * i]);
      const double y = double_of(dtype, &again[size * i]);
      ASSERT_TRUE(std::isinf(x) ? x == y : within(x, y, kBound)) << i;
    }
  }
}

// Segments of values with three raw bits or more are as long as those of codec lossless.
TEST(Segments, OfDirectChunksAreLongerWhereValuesHaveFewBits) {
  for (const auto& [n_values, bound, expected] :
       {std::tuple(1U << 18, 0.1, 1U), std::tuple(1U << 19, 0.1, 2U),
        std::tuple(1U << 18, 0.001, 4U)}) {
    const Shape shape = {n_values};
    const auto values = make_spread(DType::kF32, Spread::kGaussian, n_values, 1, 5);
    DirectParameters parameters;
    parameters.step = 2 * bound * (1 - 0x1p-20);
    const DirectChunkInfo info{DType::kF32, EntropyId::kRans, shape, 0, n_values, &parameters};
    Scratch scratch;
    std::vector<std::byte> decoded(values.size());
    DirectChunk chunk;
    ASSERT_TRUE(encode_direct(info, parameters, ParameterPlace::kInline, {bound, {}}, values,
                              scratch, decoded, chunk));
    const auto header = parse_direct_header(info, *direct_geometry(shape), chunk.encoded.payload);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->n_segments, expected) << bound;
  }
}

// Damaged chunks give an error or some values; prefixes give errors.
TEST(Segments, DamageIsNoHarm) {
  constexpr std::uint64_t kValues = 66'000;
  const ChunkInfo info = chunk_info(DType::kBF16, kValues, EntropyId::kRans);
  const std::vector<std::byte> values = make_values(DType::kBF16, Pattern::kGaussian, kValues);
  const auto payload = encode_lossless(DType::kBF16, kValues, values, EntropyId::kRans).payload;
  ASSERT_EQ(n_lossless_segments(info, payload), 2U);
  const Decoder& decoder = *find_decoder(CodecId::kLossless);
  Scratch scratch;
  std::vector<std::byte> decoded(values.size());
  const auto decode = [&](const std::vector<std::byte>& damaged) {
    const auto exact = std::make_unique<std::byte[]>(damaged.size());
    std::copy(damaged.begin(), damaged.end(), exact.get());
    return bool(decoder.decode(info, {exact.get(), damaged.size()}, scratch, decoded));
  };
  for (std::size_t bit = 0; bit < 8 * 120; ++bit) {
    std::vector<std::byte> damaged = payload;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    decode(damaged);
  }
  for (std::size_t n = 0; n < payload.size(); n += 1 + n / 20) {
    EXPECT_FALSE(decode({payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
  }
}

}  // namespace
}  // namespace cfck::codec
