// A file that shrinks, changes or fails while it is read.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "tests/fuzz/fixed_base.hpp"
#include "tests/malformed/small_files.hpp"

namespace cfck::test {
namespace {

// Behaves until read number `n_good`; then fails, or every read has one bit wrong.
class UnsteadySource final : public ByteSource {
 public:
  UnsteadySource(ByteView bytes, std::uint64_t n_good, std::optional<ErrorCode> failure,
                 std::uint64_t seed)
      : bytes_(bytes), n_good_(n_good), failure_(failure), seed_(seed) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    const std::uint64_t number = n_reads_++;
    if (number >= n_good_ && failure_) {
      return Error{*failure_, "the test says so", {}, offset_bytes};
    }
    CFCK_TRY(MemorySource(bytes_).read_at(offset_bytes, out));
    if (number >= n_good_ && !out.empty()) {
      const std::uint64_t bit = Random(seed_ + number).below(out.size() * 8);
      out[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    }
    return {};
  }
  std::uint64_t n_reads() const { return n_reads_; }

 private:
  ByteView bytes_;
  std::uint64_t n_good_;
  std::optional<ErrorCode> failure_;
  std::uint64_t seed_;
  mutable std::atomic<std::uint64_t> n_reads_{0};
};

std::uint64_t reads_needed(const Bytes& bytes) {
  const UnsteadySource source(bytes, ~std::uint64_t{0}, {}, 0);
  take(read_contents(source));
  return source.n_reads();
}

TEST(UnsteadySource, EveryReadMayFail) {
  for (const SmallFile& file : small_files()) {
    const std::uint64_t n_reads = reads_needed(file.bytes);
    for (std::uint64_t n_good = 0; n_good < n_reads; ++n_good) {
      for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kTruncated}) {
        const UnsteadySource source(file.bytes, n_good, code, 0);
        const Result<Contents> contents = read_contents(source);
        ASSERT_FALSE(contents) << file.name << ' ' << n_good;
        EXPECT_EQ(contents.error().code, code);
      }
    }
  }
}

TEST(UnsteadySource, EveryReadMayBeWrong) {
  for (const SmallFile& file : small_files()) {
    const Contents expected = take(read_contents(file.bytes));
    const std::uint64_t n_reads = reads_needed(file.bytes);
    for (std::uint64_t n_good = 0; n_good < n_reads; ++n_good) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const UnsteadySource source(file.bytes, n_good, {}, 1000 * seed);
        const Result<Contents> contents = read_contents(source);
        if (contents) {
          ASSERT_EQ(*contents, expected) << file.name;
        }
      }
    }
  }
}

TEST(UnsteadySource, VerifyReportsWhatFails) {
  for (const std::string name : {"chunked_F32", "packed_F32", "attachments", "alias_chunked"}) {
    const Bytes& bytes = small_file(name).bytes;
    for (const VerifyLevel level : {VerifyLevel::kHashes, VerifyLevel::kDeep}) {
      // Opening a small file is one read.
      for (std::uint64_t n_good = 1; n_good < 3; ++n_good) {
        const UnsteadySource source(bytes, n_good, ErrorCode::kIo, 0);
        DecodeOptions options;
        options.threads = 1;
        const Reader reader = take(Reader::open(source, options));
        const VerifyReport report = take(reader.verify(level));
        EXPECT_FALSE(report.problems.empty()) << name;
      }
    }
  }
}

TEST(UnsteadySource, AFileThatShrinksIsNoCrash) {
  const TemporaryFolder folder;
  for (const SmallFile& file : small_files()) {
    for (std::size_t n_bytes = 0; n_bytes < file.bytes.size(); n_bytes += 101) {
      put_bytes(folder.path("f"), file.bytes);
      const auto source = take(open_file(folder.path("f")));
      const Reader reader = take(Reader::open(*source, {.base = fixed_base()}));
      put_bytes(folder.path("f"), ByteView(file.bytes).first(n_bytes));
      for (const Record& record : reader.records()) {
        Bytes out(record.decoded_bytes);
        const Result<void> read = reader.read(record, out);
        if (!read) {
          EXPECT_EQ(read.error().code, ErrorCode::kTruncated) << read.error().to_string();
        } else if (!record.hidden) {
          EXPECT_EQ(out, take(read_contents(file.bytes)).tensors.at(record.name));
        }
      }
    }
  }
}

}  // namespace
}  // namespace cfck::test
