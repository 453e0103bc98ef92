// verify: damage is found, named and counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

constexpr VerifyLevel kBoth[] = {VerifyLevel::kHashes, VerifyLevel::kDeep};

// Chunked, raw, packed, alias, duplicate, empty, hidden storage, attachment.
Bytes sample() {
  const Bytes soft = weights(1, 20000);
  const Bytes hard = noise(2, 50000);
  const Bytes twin = soft;
  const Bytes storage = weights(5, 3000);
  EncodeOptions options;
  options.chunk_elems = 4000;
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("soft", TensorView{DType::kF32, {20000}, soft}));
        expect_ok(writer.add("hard", TensorView{DType::kU8, {50000}, hard}));
        expect_ok(writer.add("small", TensorView{DType::kF32, {10}, ByteView(soft).first(40)}));
        expect_ok(writer.add("other", TensorView{DType::kU8, {70}, ByteView(hard).first(70)}));
        expect_ok(writer.add("none", TensorView{DType::kF32, {0, 3}, {}}));
        expect_ok(writer.add("twin", TensorView{DType::kF32, {20000}, twin}));
        expect_ok(
            writer.add_alias("turned", "soft", 0, {100, 200}, std::vector<std::uint64_t>{1, 100}));
        const StridedTensor views[] = {{"left", DType::kF32, {2000}, {1}, storage.data()},
                                       {"right", DType::kF32, {2000}, {1}, storage.data() + 4000}};
        expect_ok(writer.add_tensors(views));
        expect_ok(writer.attach("text", ByteView(hard).first(1000)));
        expect_ok(writer.set_metadata("k", "v"));
      },
      options);
}

TEST(Verify, SoundFiles) {
  const Bytes bytes = sample();
  const OpenFile file(bytes);
  for (const VerifyLevel level : kBoth) {
    const VerifyReport report = take(file->verify(level));
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.checked_bytes, bytes.size());
    EXPECT_EQ(report.n_records, file->records().size());
  }
}

std::set<std::string> damaged_names(const Bytes& bytes, VerifyLevel level) {
  const OpenFile file(bytes);
  std::set<std::string> names;
  for (const Error& problem : take(file->verify(level)).problems) {
    names.insert(problem.record);
  }
  return names;
}

std::uint64_t place_of(const OpenFile& file, const std::string& name) {
  const Record& record = file.record(name);
  const auto number = static_cast<std::size_t>(&record - file->records().data());
  const auto& stored = ReaderAccess::index(file.reader()).records[number];
  return record.kind == RecordKind::kPacked
             ? ReaderAccess::index(file.reader()).packs[stored.pack].offset_bytes +
                   stored.pack_offset
             : stored.offset_bytes + 1000;
}

TEST(Verify, NamesTheDamagedRecords) {
  const Bytes good = sample();
  const OpenFile file(good);
  const auto damaged = [&](const std::string& name) {
    Bytes bytes = good;
    bytes[place_of(file, name)] ^= std::byte{4};
    return bytes;
  };
  for (const VerifyLevel level : kBoth) {
    EXPECT_EQ(damaged_names(damaged("hard"), level), std::set<std::string>{"hard"});
  }
  // All records of the pack: the storage behind two aliases has no name.
  EXPECT_EQ(damaged_names(damaged("small"), VerifyLevel::kHashes),
            (std::set<std::string>{"", "small", "other"}));
  EXPECT_EQ(damaged_names(damaged("small"), VerifyLevel::kDeep),
            (std::set<std::string>{"", "small", "other", "left", "right"}));
  EXPECT_EQ(damaged_names(damaged("soft"), VerifyLevel::kHashes), std::set<std::string>{"soft"});
  EXPECT_EQ(damaged_names(damaged("soft"), VerifyLevel::kDeep),
            (std::set<std::string>{"soft", "turned"}));
}

TEST(Verify, FindsEveryFlippedByte) {
  const Bytes good = sample();
  const std::size_t first_checked_when_opened =
      ReaderAccess::tail(OpenFile(good).reader()).metadata.offset_bytes;
  for (std::size_t place = 16; place < first_checked_when_opened; place += 509) {
    Bytes bytes = good;
    bytes[place] ^= std::byte{0x40};
    const OpenFile file(bytes);
    EXPECT_FALSE(take(file->verify(VerifyLevel::kHashes)).problems.empty()) << place;
  }
}

TEST(Verify, ComparesDigestsOnlyWhenDeep) {
  // The index has another digest than the values; all hashes are right.
  std::set<std::string> changed;
  const Bytes bytes = with_changed_index(sample(), [&](format::Index& index) {
    for (auto& stored : index.records) {
      stored.record.digest[0] ^= 1;
      changed.insert(stored.record.name);
    }
  });
  EXPECT_TRUE(damaged_names(bytes, VerifyLevel::kHashes).empty());
  std::set<std::string> found = damaged_names(bytes, VerifyLevel::kDeep);
  changed.erase("twin");  // what it shares is reported once, under the base
  EXPECT_EQ(found, changed);
}

// The header of a lossy chunk depends on the preamble of its record.
TEST(Verify, LossyRecordsOfManyChunks) {
  const Bytes values = weights(9, 60000);
  EncodeOptions options;
  options.chunk_elems = 4096;
  options.max_sigma_error = 0.01;
  const Bytes good = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("lossy", TensorView{DType::kF32, {100, 600}, values}));
        expect_ok(
            writer.add("more", TensorView{DType::kF32, {50, 600}, ByteView(values).first(120000)}));
      },
      options);
  const OpenFile file(good);
  const auto& stored = ReaderAccess::index(file.reader()).records[0];
  ASSERT_EQ(stored.record.codec, CodecId::kDirect);
  ASSERT_TRUE(stored.has_preamble);
  for (const VerifyLevel level : kBoth) {
    const VerifyReport report = take(file->verify(level));
    EXPECT_EQ(report.checked_bytes, good.size());
    for (const Error& problem : report.problems) ADD_FAILURE() << problem.message;
  }
  const std::uint64_t first_chunk =
      stored.offset_bytes + ReaderAccess::index(file.reader()).chunks[stored.first_chunk].n_bytes;
  for (const std::uint64_t place : {stored.offset_bytes, first_chunk}) {
    Bytes bytes = good;
    bytes[place + 20] ^= std::byte{1};
    const OpenFile damaged(bytes);
    const auto problems = take(damaged->verify(VerifyLevel::kHashes)).problems;
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].code, ErrorCode::kChecksum);
    EXPECT_EQ(problems[0].record, "lossy");
    EXPECT_EQ(problems[0].byte_offset, place);
  }
}

TEST(Verify, CanBeCancelled) {
  const OpenFile file(sample());
  for (const VerifyLevel level : kBoth) {
    const auto report = file->verify(level, [](std::uint64_t, std::string_view) { return false; });
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message, "cancelled");
    std::uint64_t last = 0;
    take(file->verify(level, [&](std::uint64_t done, std::string_view) {
      last = std::max(last, done);
      return true;
    }));
    EXPECT_EQ(last, file.bytes().size());
  }
}

TEST(Verify, DeadFramesOnlyHaveToBeFrames) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_bytes(path, sample());
  const Bytes hard = noise(77, 50000);
  Update changes;
  changes.tensors.push_back({"hard", DType::kU8, {50000}, {1}, hard.data()});
  const std::uint64_t dead = place_of(OpenFile(bytes_of(path)), "hard");
  take(update(path, changes));
  Bytes bytes = bytes_of(path);
  const OpenFile updated(bytes);
  EXPECT_GT(updated->dead_bytes(), 50000U);
  for (const VerifyLevel level : kBoth) {
    const VerifyReport report = take(updated->verify(level));
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.checked_bytes, bytes.size());
  }
  // Inside a dead frame nothing matters; its length does.
  Bytes inside = bytes;
  inside[dead + 100] ^= std::byte{1};
  EXPECT_TRUE(damaged_names(inside, VerifyLevel::kHashes).empty());
  Bytes length = bytes;
  length[dead - 1000 + 5] ^= std::byte{1};
  EXPECT_FALSE(take(OpenFile(length)->verify(VerifyLevel::kHashes)).problems.empty());
}

TEST(Verify, UnknownCodecsAreCheckedByHash) {
  const Bytes sound = sample();
  const OpenFile good(sound);
  const Bytes bytes = with_changed_index(sound, [](format::Index& index) {
    for (auto& stored : index.records) {
      if (stored.record.codec == CodecId::kLossless) {
        stored.record.codec = static_cast<CodecId>(99);
      }
    }
  });
  const OpenFile file(bytes);
  EXPECT_TRUE(take(file->verify(VerifyLevel::kHashes)).problems.empty());
  const VerifyReport deep = take(file->verify(VerifyLevel::kDeep));
  ASSERT_FALSE(deep.problems.empty());
  for (const Error& problem : deep.problems) {
    EXPECT_EQ(problem.code, ErrorCode::kUnsupported);
  }
  Bytes out(80000);
  const Result<void> read = file->read(file.record("soft"), out);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(read.error().message.find("99"), std::string::npos);
  EXPECT_EQ(file.tensor("hard"), good.tensor("hard"));
}

}  // namespace
}  // namespace cfck::test
