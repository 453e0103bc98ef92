// Head, tail and metadata: decoding restores what was encoded, and everything the specification
// forbids is refused. The geometry of chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/bytes.hpp"
#include "tests/support/container_samples.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kOffset = 1000;

TEST(Metadata, RoundTrip) {
  const auto frame = *encode_metadata(sample_metadata());
  const Result<MetadataFrame> decoded = decode_metadata(frame, kOffset);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ(decoded->entries, sample_metadata().entries);
  ASSERT_EQ(decoded->attachments.size(), 2U);
  EXPECT_EQ(decoded->attachments[1].name, "two");
  EXPECT_EQ(decoded->attachments[1].extent.n_bytes, 21U);
  EXPECT_EQ(decoded->attachments[0].decoded_bytes, 3U);
  EXPECT_EQ(decoded->attachments[0].hash, 9U);
}

TEST(Metadata, PrefixesAndExtraBytesAreRefused) {
  const auto frame = *encode_metadata(sample_metadata());
  for (std::size_t n_bytes = 0; n_bytes <= frame.size() + 1; ++n_bytes) {
    std::vector<std::byte> part = frame;
    part.resize(n_bytes);
    if (n_bytes >= 8) {
      store(part.data() + 4, static_cast<std::uint32_t>(n_bytes - 8));
    }
    EXPECT_EQ(decode_metadata(part, kOffset).has_value(), n_bytes == frame.size()) << n_bytes;
  }
}

TEST(Metadata, OrderAndTextAreChecked) {
  MetadataFrame metadata = sample_metadata();
  std::swap(metadata.attachments[0], metadata.attachments[1]);
  EXPECT_FALSE(decode_metadata(*encode_metadata(metadata), kOffset));
  metadata.attachments[0].name = metadata.attachments[1].name;
  EXPECT_FALSE(decode_metadata(*encode_metadata(metadata), kOffset));
  metadata = sample_metadata();
  metadata.attachments[1].name = "\xFF";
  EXPECT_FALSE(decode_metadata(*encode_metadata(metadata), kOffset));
  metadata = sample_metadata();
  metadata.entries["c"] = "\xC0";
  EXPECT_FALSE(decode_metadata(*encode_metadata(metadata), kOffset));
  metadata = sample_metadata();
  metadata.attachments[0].extent.n_bytes = 0;
  EXPECT_FALSE(decode_metadata(*encode_metadata(metadata), kOffset));
  // Two equal keys: the second entry's key becomes that of the third.
  auto frame = *encode_metadata(sample_metadata());
  const auto place = std::ranges::find(frame, std::byte{'b'});
  ASSERT_NE(place, frame.end());
  *place = std::byte{'a'};
  EXPECT_FALSE(decode_metadata(frame, kOffset));
}

TEST(TailFrame, RoundTrip) {
  Tail tail = sample_tail();
  tail.optional_features = 1;
  const auto frame = encode_tail(tail);
  const Result<Tail> decoded = decode_tail(frame, 80);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ(encode_tail(*decoded), frame);
}

TEST(TailFrame, EveryBitCounts) {
  const auto good = encode_tail(sample_tail());
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto frame = good;
    frame[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_FALSE(decode_tail(frame, 80)) << bit;
  }
}

TEST(TailFrame, FieldsAreChecked) {
  const auto code_of = [](const std::function<void(Tail&)>& change) {
    Tail tail = sample_tail();
    change(tail);
    const Result<Tail> decoded = decode_tail(encode_tail(tail), 80);
    return decoded ? ErrorCode{} : decoded.error().code;
  };
  EXPECT_EQ(code_of([](Tail&) {}), ErrorCode{});
  EXPECT_EQ(code_of([](Tail& t) { t.major = 1; }), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of([](Tail& t) { t.minor = kFormatMinor + 1; }), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of([](Tail& t) { t.required_features = 1; }), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of([](Tail& t) { t.required_features = std::uint64_t{1} << 63; }),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code_of([](Tail& t) { t.file_bytes += 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.generation = 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.previous_file_bytes = 16; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.metadata.offset_bytes = 15; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.metadata.n_bytes = 19; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.index.n_bytes = ~std::uint64_t{0}; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.index.offset_bytes = 35; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([](Tail& t) { t.metadata = {~std::uint64_t{0}, 37}; }), ErrorCode::kCorrupt);
}

TEST(Head, SaysTheVersion) {
  auto head = encode_head();
  EXPECT_TRUE(decode_head(head));
  EXPECT_EQ(decode_head(ByteView(head).first(15)).error().code, ErrorCode::kTruncated);
  head[14] = std::byte{9};
  const Result<void> newer = decode_head(head);
  EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(newer.error().message.find("0.9"), std::string::npos);
  head[9] = std::byte{'X'};
  EXPECT_EQ(decode_head(head).error().code, ErrorCode::kCorrupt);
}

TEST(Geometry, ChunksAreWholeRowsWhereTheyFit) {
  EXPECT_EQ(default_chunk_elems(DType::kF32, {}, 0), 1U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {0, 3}, 0), 1U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {100}, 0), 100U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {1000000}, 0), 250112U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {1000, 1000}, 0), 250000U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {4, 1000000}, 0), 250112U);
  EXPECT_EQ(default_chunk_elems(DType::kF4, {1000, 1001}, 0), 250368U);
  EXPECT_EQ(default_chunk_elems(DType::kF4, {1000, 1000}, 0), 250000U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {64, 10}, 25), 20U);
  EXPECT_EQ(default_chunk_elems(DType::kF32, {64, 10}, 9), 8U);
  EXPECT_EQ(default_chunk_elems(DType::kF64, {1, std::uint64_t{1} << 40}, ~std::uint64_t{0}),
            kMaxChunkBytes / 8);
}

TEST(Geometry, RawDataIsAligned) {
  for (std::uint64_t offset = 0; offset < 200; ++offset) {
    const std::uint64_t start = raw_start_bytes(offset);
    EXPECT_EQ((offset + start) % 64, 0U);
    EXPECT_GE(start, 12U);
    EXPECT_LT(start, 12U + 64U);
  }
  EXPECT_EQ(raw_chunks_per_frame(kMaxChunkBytes), 63U);
  EXPECT_EQ(raw_chunks_per_frame(1), kMaxRawFrameBytes);
  EXPECT_EQ(chunk_count(0, 5), 0U);
  EXPECT_EQ(chunk_count(11, 5), 3U);
}

}  // namespace
}  // namespace cfck::format
