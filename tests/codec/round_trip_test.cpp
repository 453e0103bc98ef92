// Every input is restored, bit for bit.
#include <gtest/gtest.h>

#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

void expect_round_trip(const ChunkInfo& info, const std::vector<std::byte>& values,
                       Scratch& scratch) {
  SCOPED_TRACE(entropy_name(info.entropy));
  const Encoder* const encoder = find_encoder(CodecId::kLossless);
  const Decoder* const decoder = find_decoder(CodecId::kLossless);
  EncodedChunk encoded;
  ASSERT_TRUE(encoder->encode(info, values, scratch, encoded));
  ASSERT_LE(encoded.payload.size(), values.size() + encoder->max_overhead_bytes());
  const auto body_bytes = decoder->body_bytes(info, encoded.payload);
  ASSERT_TRUE(body_bytes);
  ASSERT_EQ(*body_bytes, encoded.body_bytes);
  std::vector<std::byte> decoded(values.size(), std::byte{0xee});
  const auto done = decoder->decode(info, encoded.payload, scratch, decoded);
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_TRUE(decoded == values);
}

void expect_round_trip(DType dtype, Pattern pattern, std::uint64_t n_elems, Scratch& scratch) {
  SCOPED_TRACE(describe(dtype, pattern, n_elems));
  const std::vector<std::byte> values = make_values(dtype, pattern, n_elems);
  for (const EntropyId entropy : kAllStages) {
    expect_round_trip(chunk_info(dtype, n_elems, entropy), values, scratch);
  }
}

class RoundTrip : public testing::TestWithParam<DType> {};

TEST_P(RoundTrip, SmallSizes) {
  Scratch scratch;
  for (const Pattern pattern : kAllPatterns) {
    for (const std::uint64_t n : {1u, 2u, 7u, 8u, 9u, 127u, 128u, 129u, 255u, 256u, 257u, 1000u}) {
      expect_round_trip(GetParam(), pattern, n, scratch);
    }
  }
}

// Lengths on either side of four tables, of four bit streams, of a Zstd block; of two and four lane
// sets.
TEST_P(RoundTrip, Boundaries) {
  Scratch scratch;
  for (const Pattern pattern : kAllPatterns) {
    for (const std::uint64_t n :
         {4095u, 4096u, 4097u, 8191u, 8192u, 16500u, 32767u, 32768u, 140001u}) {
      expect_round_trip(GetParam(), pattern, n, scratch);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, RoundTrip, testing::ValuesIn(kAllDTypes),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

TEST(RoundTripLarge, SeveralBlocksPerTable) {
  Scratch scratch;
  expect_round_trip(DType::kBF16, Pattern::kGaussian, 1u << 21, scratch);
  expect_round_trip(DType::kF32, Pattern::kCleanBits, (1u << 20) + 77, scratch);
  expect_round_trip(DType::kI32, Pattern::kSortedIds, 1u << 20, scratch);
}

TEST(RoundTripArguments, WrongOnesAreRefused) {
  Scratch scratch;
  EncodedChunk encoded;
  const std::vector<std::byte> values(16);
  const Encoder* const encoder = find_encoder(CodecId::kLossless);
  EXPECT_FALSE(encoder->encode(chunk_info(DType::kF32, 5), values, scratch, encoded));
  EXPECT_FALSE(encoder->encode(chunk_info(DType::kF32, 0), {}, scratch, encoded));
  ChunkInfo info = chunk_info(DType::kF32, 4);
  info.entropy = EntropyId::kNone;
  EXPECT_FALSE(encoder->encode(info, values, scratch, encoded));
  info = chunk_info(DType::kF32, 4);
  info.preamble = values;
  EXPECT_FALSE(encoder->encode(info, values, scratch, encoded));
  EXPECT_EQ(find_encoder(CodecId::kRaw), nullptr);
  EXPECT_EQ(find_decoder(static_cast<CodecId>(77)), nullptr);
}

// Specification, section 1; for types that do not fill a byte there are more elements than bytes.
TEST(RoundTripArguments, ChunksHaveAtMostTwoToThe26Bytes) {
  Scratch scratch;
  std::vector<std::byte> values(kMaxChunkBytes, std::byte{7});
  for (const DType dtype : {DType::kU8, DType::kF32, DType::kC64, DType::kF4}) {
    SCOPED_TRACE(dtype_name(dtype));
    const std::uint64_t most = kMaxChunkBytes * 8 / bits_per_element(dtype);
    values.resize(kMaxChunkBytes);
    expect_round_trip(chunk_info(dtype, most), values, scratch);
    const std::vector<std::byte> payload = encode_lossless(dtype, most, values).payload;
    const ChunkInfo larger = chunk_info(dtype, most + 1);
    const auto body_bytes = find_decoder(CodecId::kLossless)->body_bytes(larger, payload);
    ASSERT_FALSE(body_bytes);
    EXPECT_EQ(body_bytes.error().code, ErrorCode::kInvalidArgument);
    values.resize(kMaxChunkBytes + (bits_per_element(dtype) + 7) / 8, std::byte{7});
    EncodedChunk encoded;
    EXPECT_FALSE(find_encoder(CodecId::kLossless)->encode(larger, values, scratch, encoded));
  }
}

}  // namespace
}  // namespace cfck::codec
