// Damaged payloads give an error or some values, never more than that. Run under
// AddressSanitizer this also shows that nothing is read or written out of bounds.
#include <gtest/gtest.h>

#include <memory>

#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

struct Outcome {
  bool decoded = false;
  std::vector<std::byte> values;
};

// Decodes from memory of exactly the payload's size, so that reading past it is detected.
Outcome decode_copy(const ChunkInfo& info, ByteView payload, std::size_t n_bytes,
                    Scratch& scratch) {
  const auto exact = std::make_unique<std::byte[]>(payload.size());
  std::copy(payload.begin(), payload.end(), exact.get());
  const ByteView view(exact.get(), payload.size());
  Outcome outcome{false, std::vector<std::byte>(n_bytes)};
  const Decoder* const decoder = find_decoder(CodecId::kLossless);
  (void)decoder->body_bytes(info, view);
  const auto done = decoder->decode(info, view, scratch, outcome.values);
  outcome.decoded = done.has_value();
  if (!done) {
    EXPECT_FALSE(done.error().message.empty());
    EXPECT_LE(done.error().byte_offset.value_or(0), payload.size());
  }
  return outcome;
}

class Damaged : public testing::TestWithParam<DType> {
 protected:
  // Calls `action` with chunks of n elements, of every pattern and entropy stage.
  template <class Action>
  void each_chunk(std::uint64_t n, Action&& action) {
    for (const Pattern pattern : kAllPatterns) {
      for (const EntropyId entropy : kAllStages) {
        SCOPED_TRACE(describe(GetParam(), pattern, n) + std::string(entropy_name(entropy)));
        const std::vector<std::byte> values = make_values(GetParam(), pattern, n);
        EncodedChunk encoded = encode_lossless(GetParam(), n, values, entropy);
        action(chunk_info(GetParam(), n, entropy), values.size(), encoded);
      }
    }
  }
};

TEST_P(Damaged, EveryPrefixIsAnError) {
  Scratch scratch;
  each_chunk(300, [&](const ChunkInfo& info, std::size_t n_bytes, EncodedChunk& encoded) {
    for (std::size_t n = 0; n < encoded.payload.size(); ++n) {
      EXPECT_FALSE(decode_copy(info, ByteView(encoded.payload).first(n), n_bytes, scratch).decoded)
          << n << " bytes";
    }
  });
}

TEST_P(Damaged, BytesAfterTheEndAreAnError) {
  Scratch scratch;
  each_chunk(300, [&](const ChunkInfo& info, std::size_t n_bytes, EncodedChunk& encoded) {
    encoded.payload.push_back(std::byte{0});
    EXPECT_FALSE(decode_copy(info, encoded.payload, n_bytes, scratch).decoded);
  });
}

TEST_P(Damaged, NoFlippedBitReadsOutOfBounds) {
  Scratch scratch;
  for (const std::uint64_t n : {40u, 300u}) {
    each_chunk(n, [&](const ChunkInfo& info, std::size_t n_bytes, EncodedChunk& encoded) {
      for (std::size_t bit = 0; bit < 8 * encoded.payload.size(); ++bit) {
        const auto flip = static_cast<std::byte>(1u << (bit % 8));
        encoded.payload[bit / 8] ^= flip;
        (void)decode_copy(info, encoded.payload, n_bytes, scratch);
        encoded.payload[bit / 8] ^= flip;
      }
      EXPECT_TRUE(decode_copy(info, encoded.payload, n_bytes, scratch).decoded);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(SomeDTypes, Damaged,
                         testing::Values(DType::kF4, DType::kF8E4M3, DType::kF16, DType::kBF16,
                                         DType::kI32, DType::kF32, DType::kC64, DType::kF64),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

// Payloads that no damage to a real one is likely to give.
TEST(HostileChunk, HeadersOutOfRange) {
  Scratch scratch;
  const auto decodes = [&](DType dtype, std::uint64_t n, std::vector<unsigned> bytes) {
    std::vector<std::byte> payload;
    for (const unsigned byte : bytes) {
      payload.push_back(static_cast<std::byte>(byte));
    }
    return decode_copy(chunk_info(dtype, n), payload, n * bits_per_element(dtype) / 8, scratch)
        .decoded;
  };
  EXPECT_FALSE(decodes(DType::kF32, 4, {}));
  EXPECT_FALSE(decodes(DType::kF32, 4, {4}));                                 // unknown mode
  EXPECT_FALSE(decodes(DType::kU8, 4, {2, 0, 0, 0}));                         // symbols of integers
  EXPECT_FALSE(decodes(DType::kF32, 4, {2, 0, 0xff, 0xff, 0xff, 0xff, 15}));  // bin
  EXPECT_FALSE(decodes(DType::kF32, 4, {2, 0, 0x80, 0, 0}));                  // overlong varint
  EXPECT_FALSE(decodes(DType::kF32, 4, {2, 2, 0, 0}));                        // signs without mask
  EXPECT_FALSE(decodes(DType::kF32, 4, {2, 1, 0, 1, 4, 0, 0}));               // all masked
  EXPECT_FALSE(decodes(DType::kU8, 4, {3, 2, 0, 0, 0, 0}));                   // transform
  EXPECT_FALSE(decodes(DType::kU8, 4, {3, 0, 3, 0, 0, 0}));                   // coding
  EXPECT_FALSE(decodes(DType::kU8, 4, {3, 0, 2, 9, 0, 0}));                   // plane grows
  EXPECT_TRUE(decodes(DType::kU8, 4, {1, 7}));
  EXPECT_FALSE(decodes(DType::kU8, 4, {1}));
}

}  // namespace
}  // namespace cfck::codec
