// Equal values give equal payloads, whatever was encoded before, on every machine and with every
// compiler.
#include <gtest/gtest.h>

#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

std::uint64_t fnv1a(ByteView bytes, std::uint64_t hash) {
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

TEST(Determinism, ScratchMemoryLeavesNoTrace) {
  Scratch used;
  for (const Pattern pattern : kAllPatterns) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI32}) {
      for (const std::uint64_t n : {20000u, 300u}) {
        const std::vector<std::byte> values = make_values(dtype, pattern, n);
        EncodedChunk again;
        ASSERT_TRUE(
            find_encoder(CodecId::kLossless)->encode(chunk_info(dtype, n), values, used, again));
        EXPECT_TRUE(again.payload == encode_lossless(dtype, n, values).payload)
            << describe(dtype, pattern, n);
      }
    }
  }
}

// Payloads without anything of libzstd's, whose bytes may differ by version. A
// deliberate change of the encoder changes the hash, and needs a line in
// CHANGELOG.md.
TEST(Determinism, PayloadsArePinned) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const Pattern pattern : {Pattern::kGaussian, Pattern::kCleanBits, Pattern::kPositive}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kC64, DType::kBF16, DType::kF16}) {
      for (const std::uint64_t n : {500u, 30000u}) {
        const EncodedChunk encoded = encode_lossless(dtype, n, make_values(dtype, pattern, n));
        ASSERT_EQ(static_cast<unsigned>(encoded.payload[0]), 2u) << describe(dtype, pattern, n);
        ASSERT_EQ(static_cast<unsigned>(encoded.payload[1]) & 1u, 0u)
            << describe(dtype, pattern, n);
        hash = fnv1a(encoded.payload, hash);
      }
    }
  }
  EXPECT_EQ(hash, 843932129282787904u);
}

}  // namespace
}  // namespace cfck::codec
