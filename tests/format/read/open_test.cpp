// Opening: files that are not cfck files, are cut off, or are too large; frames.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "cfck/version.hpp"
#include "format/container/container.hpp"
#include "format/container/frame_walk.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

using namespace std::string_view_literals;

Bytes from_text(std::string_view text) {
  const ByteView view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

Error open_error(const Bytes& bytes, DecodeOptions options = {}) {
  const MemorySource source(bytes);
  const Result<Reader> reader = Reader::open(source, options);
  return reader ? Error{ErrorCode{}, {}, {}, {}} : reader.error();
}

Bytes sample() {
  const Bytes bytes = weights(1, 20000);
  EncodeOptions options;
  options.entropy = EntropyId::kZstd;  // which puts a frame after the one of the chunk
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("large", TensorView{DType::kF32, {20000}, bytes}));
        expect_ok(writer.add("small", TensorView{DType::kF32, {10}, ByteView(bytes).first(40)}));
        expect_ok(writer.set_metadata("key", "value"));
        expect_ok(writer.attach("text", ByteView(bytes).first(100)));
      },
      options);
}

TEST(Open, SaysWhatOtherFilesAre) {
  struct Foreign {
    std::string_view start;
    std::string_view says;
  };
  const Foreign kForeign[] = {
      {"PK\x03\x04"sv, "PyTorch"},
      {"GGUF\x03\0\0\0"sv, "GGUF"},
      {"\x89HDF\r\n\x1a\n"sv, "HDF5"},
      {"\x93NUMPY\x01\0"sv, "NumPy"},
      {"\x80\x02}q"sv, "pickle"},
      {"\x28\xb5\x2f\xfd\0"sv, "zstd"},
      {"\x1f\x8b\x08"sv, "gzip"},
      {"version https://git-lfs.github.com/spec/v1"sv, "git lfs pull"},
      {"\x20\0\0\0\0\0\0\0{\"a\":{}}"sv, "safetensors"},
  };
  for (const Foreign& foreign : kForeign) {
    Bytes bytes = from_text(foreign.start);
    bytes.resize(1000);
    const Error error = open_error(bytes);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << foreign.says;
    EXPECT_NE(error.message.find(foreign.says), std::string::npos) << error.message;
  }
  EXPECT_EQ(open_error(noise(1, 1000)).code, ErrorCode::kCorrupt);
}

TEST(Open, EmptyAndShortFiles) {
  EXPECT_EQ(open_error({}).code, ErrorCode::kTruncated);
  EXPECT_NE(open_error({}).message.find("is empty"), std::string::npos);
  EXPECT_EQ(open_error(from_text("abc")).code, ErrorCode::kTruncated);
  Bytes cut = sample();
  cut.resize(100);
  EXPECT_EQ(open_error(cut).code, ErrorCode::kTruncated);
}

TEST(Open, EveryPrefixIsTruncated) {
  const Bytes whole = sample();
  for (std::size_t n_bytes = 16; n_bytes < whole.size(); n_bytes += n_bytes % 97 + 1) {
    const Error error =
        open_error(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n_bytes)));
    EXPECT_EQ(error.code, ErrorCode::kTruncated) << n_bytes << ' ' << error.message;
  }
}

TEST(Open, BytesBehindTheTailAreRefused) {
  Bytes bytes = sample();
  bytes.push_back(std::byte{0});
  EXPECT_NE(open_error(bytes).code, ErrorCode{});
}

TEST(Open, ATornUpdateNamesTheGenerationThatIsWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_bytes(path, sample());
  const std::size_t old_bytes = bytes_of(path).size();
  const Bytes more = weights(7, 9000);
  Update changes;
  changes.tensors.push_back({"more", DType::kF32, {9000}, {1}, more.data()});
  take(update(path, changes));
  const Bytes whole = bytes_of(path);
  ASSERT_GT(whole.size(), old_bytes);
  expect_sound(OpenFile(whole).reader());
  for (std::size_t n_bytes = old_bytes + 1; n_bytes < whole.size(); n_bytes += 1009) {
    const Error error =
        open_error(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n_bytes)));
    EXPECT_EQ(error.code, ErrorCode::kTruncated);
    EXPECT_NE(error.message.find("generation 0 is whole"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("repair"), std::string::npos);
    EXPECT_EQ(error.byte_offset, old_bytes);
  }
  // The prefix itself is the old file.
  const MemorySource source(whole);
  const format::PrefixSource prefix(source, old_bytes);
  EXPECT_EQ(take(Reader::open(prefix)).generation(), 0U);
  Bytes out(2);
  EXPECT_EQ(prefix.read_at(old_bytes - 1, out).error().code, ErrorCode::kTruncated);
}

TEST(Open, OtherVersionsAreNamed) {
  Bytes bytes = sample();
  const std::size_t tail = bytes.size() - format::kTailBytes;
  store(bytes.data() + tail + 14, std::uint16_t{kFormatMinor + 1});
  store(bytes.data() + tail + 120, hash64(ByteView(bytes).subspan(tail, 120)));
  EXPECT_EQ(open_error(bytes).code, ErrorCode::kUnsupported);
  EXPECT_NE(open_error(bytes).message.find("0." + std::to_string(kFormatMinor + 1)),
            std::string::npos);
  // The tail of this version cannot be understood at all, but the head names the version.
  bytes = sample();
  store(bytes.data() + 12, std::uint16_t{3});
  bytes.resize(bytes.size() - 5);
  EXPECT_EQ(open_error(bytes).code, ErrorCode::kUnsupported);
  EXPECT_NE(open_error(bytes).message.find("3." + std::to_string(kFormatMinor)), std::string::npos);
}

TEST(Open, UnknownFeatureBits) {
  for (const bool required : {true, false}) {
    Bytes bytes = sample();
    const std::size_t tail = bytes.size() - format::kTailBytes;
    bytes[tail + (required ? 16 : 24)] = std::byte{1};
    store(bytes.data() + tail + 120, hash64(ByteView(bytes).subspan(tail, 120)));
    EXPECT_EQ(open_error(bytes).code, required ? ErrorCode::kUnsupported : ErrorCode{});
  }
}

TEST(Open, IndexAndMetadataAreLimited) {
  DecodeOptions options;
  options.limits.max_index_bytes = 100;
  EXPECT_EQ(open_error(sample(), options).code, ErrorCode::kLimitExceeded);
  EXPECT_NE(open_error(sample(), options).message.find("max_index_bytes"), std::string::npos);
  options.limits = {};
  options.limits.max_metadata_bytes = 50;
  EXPECT_EQ(open_error(sample(), options).code, ErrorCode::kLimitExceeded);
  EXPECT_NE(open_error(sample(), options).message.find("max_metadata_bytes"), std::string::npos);
  options.limits = {};
  options.limits.max_records = 1;
  EXPECT_EQ(open_error(sample(), options).code, ErrorCode::kLimitExceeded);
}

TEST(Open, WhatAWriterWritesIsReadByDefault) {
  const std::string long_text(17'000'000, 'x');
  const Bytes file_bytes = write_file([&](Writer& writer) {
    expect_ok(writer.set_metadata("long", long_text));
    // An index of 65 MiB.
    const std::string long_name(65'000, 'n');
    for (int i = 0; i < 1050; ++i) {
      expect_ok(writer.add(long_name + std::to_string(i), TensorView{DType::kF32, {0}, {}}));
    }
  });
  const MemorySource source(file_bytes);
  const Reader reader = take(Reader::open(source));
  EXPECT_EQ(reader.metadata().at("long").size(), 17'000'000U);
  EXPECT_EQ(reader.records().size(), 1050U);
  EXPECT_EQ(Limits().max_records, 0U) << "a number of records is refused by default";
}

TEST(Open, LimitsAreSetByTheNamesInTheErrors) {
  Limits limits;
  EXPECT_TRUE(set_limit(limits, "max_index_bytes", 1));
  EXPECT_TRUE(set_limit(limits, "max_metadata_bytes", 2));
  EXPECT_TRUE(set_limit(limits, "max_records", 3));
  EXPECT_TRUE(set_limit(limits, "max_attachment_bytes", 4));
  EXPECT_TRUE(set_limit(limits, "max_decoded_bytes", 5));
  EXPECT_TRUE(set_limit(limits, "max_bases", 7));
  EXPECT_EQ(limits.max_index_bytes, 1U);
  EXPECT_EQ(limits.max_metadata_bytes, 2U);
  EXPECT_EQ(limits.max_records, 3U);
  EXPECT_EQ(limits.max_attachment_bytes, 4U);
  EXPECT_EQ(limits.max_decoded_bytes, 5U);
  EXPECT_FALSE(set_limit(limits, "max_tensors", 6));
}

// Counts reads: opening needs the end of the file, and the head.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(ByteView bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    ++n_reads;
    return MemorySource(bytes_).read_at(offset_bytes, out);
  }
  mutable int n_reads = 0;

 private:
  ByteView bytes_;
};

TEST(Open, ReadsLittle) {
  const Bytes large = noise(1, 300000);
  const Bytes bytes = write_file([&](Writer& writer) {
    expect_ok(writer.add("t", TensorView{DType::kU8, {300000}, large}));
  });
  const CountingSource source(bytes);
  ASSERT_TRUE(Reader::open(source));
  EXPECT_EQ(source.n_reads, 2);
}

TEST(Open, LargeIndexes) {
  const Bytes bytes = noise(1, 80000);
  const Bytes file = write_file([&](Writer& writer) {
    for (std::uint64_t i = 0; i < 10000; ++i) {
      expect_ok(writer.add("tensor." + std::to_string(i),
                           TensorView{DType::kU8, {8}, ByteView(bytes).subspan(8 * i, 8)}));
    }
  });
  const CountingSource source(file);
  const Reader reader = take(Reader::open(source));
  EXPECT_EQ(reader.records().size(), 10000U);
  EXPECT_EQ(source.n_reads, 3);
  Bytes out(8);
  expect_ok(reader.read(*reader.find("tensor.7777"), out));
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.begin() + 8 * 7777));
}

TEST(FrameWalk, MeetsEveryFrame) {
  const Bytes bytes = sample();
  const MemorySource source(bytes);
  std::vector<std::string> tags;
  std::uint64_t end = 0;
  expect_ok(format::walk_frames(source, [&](const format::Frame& frame) -> Result<bool> {
    EXPECT_EQ(frame.offset_bytes, end);
    end += frame.n_bytes;
    tags.push_back(frame.skippable ? std::string(frame.tag.data(), 4) : "zstd");
    return true;
  }));
  EXPECT_EQ(end, bytes.size());
  EXPECT_EQ(tags, (std::vector<std::string>{"CFCK", "CHNK", "zstd", "PACK", "zstd", "META", "INDX",
                                            "TAIL"}));
}

TEST(FrameWalk, StopsWhenAsked) {
  const Bytes bytes = sample();
  const MemorySource source(bytes);
  int n_frames = 0;
  expect_ok(format::walk_frames(
      source, [&](const format::Frame&) -> Result<bool> { return ++n_frames < 2; }));
  EXPECT_EQ(n_frames, 2);
}

TEST(FrameWalk, SaysWhereItEnds) {
  const Bytes whole = sample();
  std::vector<std::uint64_t> starts;
  const MemorySource good(whole);
  const auto collect = [&](const format::Frame& frame) -> Result<bool> {
    starts.push_back(frame.offset_bytes);
    return true;
  };
  expect_ok(format::walk_frames(good, collect));
  starts.push_back(whole.size());
  const std::vector<std::uint64_t> all = starts;
  for (std::size_t n_bytes = 1; n_bytes < whole.size(); n_bytes += n_bytes % 61 + 1) {
    starts.clear();
    const MemorySource source(ByteView(whole).first(n_bytes));
    const Result<void> walked = format::walk_frames(source, collect);
    const bool at_a_border = std::ranges::find(all, n_bytes) != all.end();
    EXPECT_EQ(walked.has_value(), at_a_border) << n_bytes;
    if (!walked) {
      EXPECT_EQ(walked.error().code, ErrorCode::kTruncated);
    }
    EXPECT_EQ(starts.size(), static_cast<std::size_t>(std::ranges::count_if(
                                 all, [&](std::uint64_t s) { return s < n_bytes; })) -
                                 (at_a_border ? 0 : 1));
  }
  Bytes bad = whole;
  bad[static_cast<std::size_t>(all[3])] ^= std::byte{0xFF};
  const MemorySource source(bad);
  const Result<void> walked = format::walk_frames(source, collect);
  EXPECT_EQ(walked.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(walked.error().byte_offset, all[3]);
}

TEST(FrameWalk, FindsTheLastGenerationOnly) {
  const Bytes bytes = sample();
  const MemorySource source(bytes);
  const auto found = take(format::find_last_generation(source));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end_bytes, bytes.size());
  Bytes damaged = bytes;
  damaged[damaged.size() - format::kTailBytes - 3] ^= std::byte{1};  // of the index
  const MemorySource bad(damaged);
  EXPECT_FALSE(take(format::find_last_generation(bad)));
  const Bytes noisy = noise(3, 5000);
  const MemorySource foreign(noisy);
  EXPECT_FALSE(take(format::find_last_generation(foreign)));
}

}  // namespace
}  // namespace cfck::test
