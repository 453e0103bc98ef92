// Files put together with bad intent: every hash is right, the fields are
// not.
#include <gtest/gtest.h>
#include <zstd.h>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "tests/malformed/small_files.hpp"

namespace cfck::test {
namespace {

using format::StoredRecord;

ErrorCode code_of(const Bytes& bytes) {
  const Result<Contents> contents = read_contents(bytes);
  return contents ? ErrorCode{} : contents.error().code;
}

ErrorCode code_after(const std::string& name, const std::function<void(FileParts&)>& change) {
  return code_of(changed(small_file(name).bytes, change));
}

TEST(Hostile, PuttingTogetherChangesNothing) {
  for (const SmallFile& file : small_files()) {
    EXPECT_EQ(changed(file.bytes, [](FileParts&) {}), file.bytes) << file.name;
  }
}

TEST(Hostile, UncoveredBytes) {
  EXPECT_EQ(code_after("packed_F32",
                       [](FileParts& parts) {
                         // A valid frame that belongs to nothing.
                         Bytes frame(16);
                         store(frame.data(), format::kSkippableMagic);
                         store(frame.data() + 4, std::uint32_t{8});
                         parts.body.insert(parts.body.end(), frame.begin(), frame.end());
                       }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(
      code_after("attachments", [](FileParts& parts) { parts.metadata.attachments.pop_back(); }),
      ErrorCode::kCorrupt);
  EXPECT_EQ(code_after("chunked_F32", [](FileParts& parts) { parts.index = {}; }),
            ErrorCode::kCorrupt);
}

TEST(Hostile, OverlappingRecords) {
  // Two records of the same chunks: a bomb that costs nothing to store.
  EXPECT_EQ(code_after("chunked_F32",
                       [](FileParts& parts) {
                         StoredRecord again = parts.index.records[0];
                         again.record.name = "again";
                         again.first_chunk = parts.index.chunks.size();
                         const auto chunks = parts.index.chunks;
                         parts.index.chunks.insert(parts.index.chunks.end(), chunks.begin(),
                                                   chunks.end());
                         parts.index.records.push_back(again);
                       }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(code_after("packed_F32",
                       [](FileParts& parts) {
                         StoredRecord again = parts.index.records[0];
                         again.record.name = "again";
                         parts.index.records.push_back(again);
                       }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(code_after("attachments",
                       [](FileParts& parts) {
                         parts.metadata.attachments[0].extent =
                             parts.metadata.attachments[1].extent;
                       }),
            ErrorCode::kCorrupt);
}

TEST(Hostile, PlacesOutsideTheFile) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{15}, std::uint64_t{1} << 20,
                                     std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    EXPECT_EQ(code_after("chunked_F32",
                         [&](FileParts& parts) { parts.index.records[0].offset_bytes = offset; }),
              ErrorCode::kCorrupt);
    EXPECT_EQ(code_after("packed_F32",
                         [&](FileParts& parts) { parts.index.packs[0].offset_bytes = offset; }),
              ErrorCode::kCorrupt);
    EXPECT_EQ(code_after("attachments",
                         [&](FileParts& parts) {
                           parts.metadata.attachments[0].extent.offset_bytes = offset;
                         }),
              ErrorCode::kCorrupt);
  }
  EXPECT_EQ(code_after("attachments",
                       [](FileParts& parts) {
                         parts.metadata.attachments[0].extent.n_bytes = ~std::uint64_t{0};
                       }),
            ErrorCode::kCorrupt);
}

TEST(Hostile, FramesThatAreNotWhatTheIndexSays) {
  for (const std::uint64_t place : {0, 4, 8}) {
    EXPECT_EQ(code_after("chunked_F32",
                         [&](FileParts& parts) { parts.body[16 + place] ^= std::byte{1}; }),
              ErrorCode::kCorrupt);
    EXPECT_EQ(
        code_after("packed_F32", [&](FileParts& parts) { parts.body[16 + place] ^= std::byte{1}; }),
        ErrorCode::kCorrupt);
    EXPECT_EQ(code_after("raw_chunked",
                         [&](FileParts& parts) { parts.body[16 + place] ^= std::byte{1}; }),
              ErrorCode::kCorrupt);
  }
  EXPECT_EQ(code_after("raw_chunked", [](FileParts& parts) { parts.body[16 + 20] = std::byte{1}; }),
            ErrorCode::kCorrupt);
}

TEST(Hostile, OneChunkForAnother) {
  // Chunks swapped, hashes right: values are wrong, and the digest says so.
  const Bytes bytes = changed(small_file("raw_chunked").bytes, [](FileParts& parts) {
    std::swap_ranges(parts.body.end() - 96, parts.body.end() - 48, parts.body.end() - 48);
  });
  const OpenFile file(bytes);
  EXPECT_TRUE(take(file->verify(VerifyLevel::kHashes)).problems.empty());
  const VerifyReport deep = take(file->verify(VerifyLevel::kDeep));
  ASSERT_EQ(deep.problems.size(), 1U);
  EXPECT_EQ(deep.problems[0].record, "t");
}

TEST(Hostile, Bombs) {
  // Four bytes that claim to be four tebibytes, by strides of 0.
  const Bytes alias = changed(small_file("alias_packed").bytes, [](FileParts& parts) {
    Record& record = parts.index.records[1].record;
    record.shape = {std::uint64_t{1} << 40};
    record.strides = {0};
  });
  {
    const OpenFile file(alias);
    const Record& record = file.record("v");
    EXPECT_EQ(record.decoded_bytes, std::uint64_t{1} << 42);
    const Result<void> read = file->read(record, {});
    EXPECT_EQ(read.error().code, ErrorCode::kLimitExceeded);
    EXPECT_NE(read.error().message.find("max_decoded_bytes"), std::string::npos);
    Bytes out(400);
    expect_ok(file->read_elements(record, (std::uint64_t{1} << 40) - 100, 100, out));
    const VerifyReport deep = take(file->verify(VerifyLevel::kDeep));
    ASSERT_EQ(deep.problems.size(), 1U);
    EXPECT_EQ(deep.problems[0].code, ErrorCode::kLimitExceeded);
  }
  // A small payload for a chunk of 64 MiB, and one more value.
  for (const std::uint64_t n : {format::kMaxChunkBytes / 4, format::kMaxChunkBytes / 4 + 1}) {
    const Bytes payload = changed(small_file("packed_F32").bytes, [&](FileParts& parts) {
      parts.index.records[0].record.shape = {n};
    });
    const MemorySource source(payload);
    const Result<Reader> reader = Reader::open(source);
    ASSERT_EQ(reader.has_value(), n == format::kMaxChunkBytes / 4);
    if (reader) {
      Bytes out(4 * n);
      EXPECT_FALSE(reader->read(*reader->find("t"), out));
    }
  }
}

Bytes with_attachment(const Bytes& frame, std::uint64_t decoded_bytes) {
  return changed(small_file("nothing").bytes, [&](FileParts& parts) {
    parts.metadata.attachments.push_back(
        {"a", {parts.body.size(), frame.size()}, decoded_bytes, 0});
    parts.body.insert(parts.body.end(), frame.begin(), frame.end());
  });
}

Bytes zstd_frame(const Bytes& bytes, bool content_size) {
  Bytes frame(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, content_size ? 1 : 0);
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

TEST(Hostile, Attachments) {
  const Bytes zeros = constant(0, 1000);
  const Bytes frame = zstd_frame(zeros, true);
  EXPECT_EQ(code_of(with_attachment(frame, 1000)), ErrorCode{});
  EXPECT_EQ(code_of(with_attachment(frame, 999)), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(with_attachment(frame, 1001)), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(with_attachment(frame, std::uint64_t{1} << 30)), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(with_attachment(frame, (std::uint64_t{1} << 30) + 1)),
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(with_attachment(frame, ~std::uint64_t{0})), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(with_attachment(zstd_frame(zeros, false), 1000)), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of(with_attachment(joined({frame, frame}), 2000)), ErrorCode::kCorrupt);
  Bytes skippable(40);
  store(skippable.data(), format::kSkippableMagic);
  store(skippable.data() + 4, std::uint32_t{32});
  EXPECT_EQ(code_of(with_attachment(skippable, 0)), ErrorCode::kCorrupt);
}

TEST(Hostile, FutureIdsSpareTheOtherRecords) {
  const Bytes bytes = changed(small_file("duplicate_chunked").bytes, [](FileParts& parts) {
    parts.index.records[1].record.codec = static_cast<CodecId>(50);
  });
  const OpenFile file(bytes);
  Bytes out(240);
  EXPECT_EQ(file->read(file.record("b"), out).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(file.tensor("a"), OpenFile(small_file("duplicate_chunked").bytes).tensor("a"));
  for (const bool scan : {false, true}) {
    const Bytes other = changed(small_file("chunked_F32").bytes, [&](FileParts& parts) {
      Record& record = parts.index.records[0].record;
      if (scan) {
        record.scan = static_cast<ScanId>(9);
      } else {
        record.entropy = static_cast<EntropyId>(9);
      }
    });
    EXPECT_EQ(code_of(other), ErrorCode::kUnsupported);
  }
  const Bytes dtype = changed(small_file("raw_chunked").bytes, [&](FileParts& parts) {
    parts.index.records[0].record.dtype = static_cast<DType>(99);
  });
  EXPECT_EQ(code_of(dtype), ErrorCode::kUnsupported);
}

TEST(Hostile, AFrameThatHidesOthers) {
  // A dead frame whose length runs over live ones: reading works, a walk does not.
  const Bytes bytes = changed(small_file("generation_1").bytes, [](FileParts& parts) {
    const std::uint64_t previous = parts.tail.previous_file_bytes;
    store(parts.body.data() + previous - format::kTailBytes + 4, std::uint32_t{120 + 40});
  });
  EXPECT_EQ(code_of(bytes), ErrorCode{});
  EXPECT_FALSE(take(OpenFile(bytes)->verify(VerifyLevel::kHashes)).problems.empty());
}

}  // namespace
}  // namespace cfck::test
