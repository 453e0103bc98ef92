#include "codec/entropy/entropy.hpp"

#include <gtest/gtest.h>
#include <zstd.h>

#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

TEST(EntropyStage, DecodesWhatItEncodes) {
  const std::vector<std::uint8_t> a = {1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<std::uint8_t> b(700, 5);
  const SymbolStream streams[] = {a, {}, b};
  const std::size_t lengths[] = {a.size(), 0, b.size()};
  std::vector<std::byte> coded;
  find_entropy_encoder(EntropyId::kZstd)->encode(streams, coded);

  Scratch scratch;
  std::vector<std::uint8_t> symbols(a.size() + b.size());
  const EntropyDecoder* const decoder = find_entropy_decoder(EntropyId::kZstd);
  ASSERT_TRUE(decoder->decode(coded, lengths, scratch, symbols));
  std::vector<std::uint8_t> expected = a;
  expected.resize(symbols.size(), 5);
  EXPECT_EQ(symbols, expected);

  std::vector<std::uint8_t> other(symbols.size() - 1);
  EXPECT_FALSE(decoder->decode(coded, lengths, scratch, other));
  EXPECT_FALSE(decoder->decode(ByteView(coded).first(coded.size() - 1), lengths, scratch, symbols));
  coded.push_back(std::byte{0});
  EXPECT_FALSE(decoder->decode(coded, lengths, scratch, symbols));
}

// Long streams of small symbols are counted and coded in pairs; one symbol that is not small, at
// any position, ends that.
TEST(EntropyStage, LargeSymbolsInLongStreams) {
  const EntropyDecoder* const decoder = find_entropy_decoder(EntropyId::kZstd);
  Scratch scratch;
  for (const std::size_t n : {16383U, 16384U, 16385U, 40001U, 150003U}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{7}, n / 2, n / 2 + 1, n - 1, n}) {
      std::vector<std::uint8_t> stream(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto mixed = static_cast<std::uint32_t>(i * 2654435761U) >> 16;
        stream[i] = static_cast<std::uint8_t>((mixed & mixed >> 6) % 64);
      }
      if (place < n) {
        stream[place] = 64 + static_cast<std::uint8_t>(place % 192);
      }
      const SymbolStream streams[] = {stream};
      std::vector<std::byte> coded;
      find_entropy_encoder(EntropyId::kZstd)->encode(streams, coded);
      std::vector<std::uint8_t> symbols(n);
      const std::size_t lengths[] = {n};
      ASSERT_TRUE(decoder->decode(coded, lengths, scratch, symbols)) << n << ", " << place;
      ASSERT_EQ(symbols, stream) << n << ", " << place;
      ASSERT_LT(coded.size(), n);
    }
  }
}

TEST(EntropyStage, UnknownIdsHaveNone) {
  EXPECT_EQ(find_entropy_encoder(EntropyId::kNone), nullptr);
  EXPECT_EQ(find_entropy_decoder(EntropyId::kNone), nullptr);
}

// The body of a chunk is followed by a frame that any Zstd reader understands.
TEST(EntropyStage, ChunksEndWithOneOrdinaryFrame) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
    const std::vector<std::byte> values = make_values(dtype, Pattern::kGaussian, 20000);
    const EncodedChunk encoded = encode_lossless(dtype, 20000, values);
    const ByteView frame = ByteView(encoded.payload).subspan(encoded.body_bytes);
    ASSERT_FALSE(frame.empty());
    EXPECT_EQ(ZSTD_findFrameCompressedSize(frame.data(), frame.size()), frame.size());
    std::vector<std::byte> symbols(ZSTD_getFrameContentSize(frame.data(), frame.size()));
    EXPECT_EQ(ZSTD_decompress(symbols.data(), symbols.size(), frame.data(), frame.size()),
              symbols.size());
  }
}

}  // namespace
}  // namespace cfck::codec
