// The index as a Zstd frame.
#include "format/container/index/compressed_index.hpp"

#include <gtest/gtest.h>
#include <zstd.h>

#include <string>

#include "base/hashing/hashing.hpp"
#include "format/container/frame_bytes.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::format {
namespace {

using Bytes = std::vector<std::byte>;

// An index of records without elements.
Index many_records(std::size_t n_records) {
  Index index;
  for (std::size_t i = 0; i < n_records; ++i) {
    StoredRecord stored;
    stored.record.name = "layer." + std::to_string(i) + ".weight";
    stored.record.dtype = DType::kF32;
    stored.record.shape = {0};
    stored.record.chunk_elems = 1;
    stored.record.digest = hash128({});
    index.records.push_back(stored);
  }
  return index;
}

Bytes frame_of(ByteView contents) {
  Bytes frame(kFrameHeaderBytes + contents.size());
  store_frame_header(frame.data(), kIndexTag, frame.size());
  std::copy(contents.begin(), contents.end(), frame.begin() + kFrameHeaderBytes);
  return frame;
}

Bytes zstd_frame(ByteView bytes) {
  Bytes frame(ZSTD_compressBound(bytes.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), 3));
  return frame;
}

Tail tail_with(std::uint64_t features) {
  Tail tail;
  tail.required_features = features;
  tail.index.offset_bytes = 1000;
  return tail;
}

Error refusal(ByteView contents, const Limits& limits = {}) {
  auto index = decode_index_of(tail_with(kCompressedIndex), frame_of(contents), limits);
  EXPECT_FALSE(index);
  return index ? Error{} : std::move(index).error();
}

TEST(CompressedIndex, IsThatOfThePlainTables) {
  const Bytes plain = *encode_index(many_records(100));
  const IndexFrame stored = *compress_index(plain);
  EXPECT_EQ(stored.required_features, kCompressedIndex);
  EXPECT_LT(stored.bytes.size() * 10, plain.size());
  const auto index = decode_index_of(tail_with(kCompressedIndex), stored.bytes, {});
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(*encode_index(*index), plain);
  EXPECT_TRUE(decode_index_of(tail_with(0), plain, {}));
}

TEST(CompressedIndex, ShortAndVeryLongTablesStayPlain) {
  for (const std::size_t n_records : {0U, 1U, 5U, 60'000U}) {
    const Bytes plain = *encode_index(many_records(n_records));
    const IndexFrame stored = *compress_index(plain);
    EXPECT_EQ(stored.required_features, 0U) << n_records;
    EXPECT_EQ(stored.bytes, plain) << n_records;
  }
}

TEST(CompressedIndex, TablesThatDoNotGetShorterStayPlain) {
  Bytes noise(kFrameHeaderBytes + 4096);
  std::uint64_t state = 1;
  for (std::byte& byte : noise) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  EXPECT_EQ(compress_index(noise)->bytes, noise);
}

TEST(CompressedIndex, BrokenFramesAreRefusedWhereTheyBegin) {
  const Bytes plain = *encode_index(many_records(40));
  const ByteView tables = ByteView(plain).subspan(kFrameHeaderBytes);
  const Bytes good = zstd_frame(tables);
  Bytes two = good;
  two.insert(two.end(), good.begin(), good.end());
  for (const Bytes& contents :
       {Bytes(), Bytes(tables.begin(), tables.end()), Bytes(good.begin(), good.end() - 2), two,
        zstd_frame({}), zstd_frame(tables.first(tables.size() - 1)),
        zstd_frame(Bytes(kMaxCompressedTables + 1))}) {
    const Error error = refusal(contents);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_EQ(error.byte_offset, 1000 + kFrameHeaderBytes);
    EXPECT_NE(error.message.find("compressed index"), std::string::npos) << error.message;
  }
}

TEST(CompressedIndex, FlippedBitsAreRefusedOrGiveAnIndex) {
  const Bytes good = zstd_frame(ByteView(*encode_index(many_records(12))).subspan(12));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes damaged = good;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto index = decode_index_of(tail_with(kCompressedIndex), frame_of(damaged), {});
    if (index) continue;
    EXPECT_EQ(index.error().byte_offset, 1000 + kFrameHeaderBytes) << bit;
  }
}

TEST(CompressedIndex, LimitsCountItsTables) {
  const Bytes plain = *encode_index(many_records(100));
  const Bytes contents = zstd_frame(ByteView(plain).subspan(kFrameHeaderBytes));
  Limits limits;
  limits.max_index_bytes = plain.size() - kFrameHeaderBytes - 1;
  const Error error = refusal(contents, limits);
  EXPECT_EQ(error.code, ErrorCode::kLimitExceeded);
  EXPECT_NE(error.message.find("max_index_bytes"), std::string::npos);
  limits.max_index_bytes += 1;
  EXPECT_TRUE(decode_index_of(tail_with(kCompressedIndex), frame_of(contents), limits));
  limits.max_records = 99;
  EXPECT_EQ(refusal(contents, limits).code, ErrorCode::kLimitExceeded);
}

// A file of the writer, with the index compressed and plain.
TEST(CompressedIndex, FilesReadTheSameEitherWay) {
  const std::vector<std::byte> values(64);
  const test::Bytes file = test::write_file([&](Writer& writer) {
    for (int i = 0; i < 50; ++i) {
      const auto name = "layer." + std::to_string(i);
      test::expect_ok(writer.add(name, TensorView{DType::kF32, {16}, values}));
    }
  });
  const test::Bytes plain = test::with_changed_index(file, [](Index&) {});
  EXPECT_LT(file.size() + 2000, plain.size());
  const test::OpenFile a(file);
  const test::OpenFile b(plain);
  EXPECT_EQ(a.reader().content_digest(), b.reader().content_digest());
  EXPECT_EQ(a.reader().records().size(), b.reader().records().size());
}

}  // namespace
}  // namespace cfck::format
