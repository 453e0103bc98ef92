// Zip files that were written, read by their directory.
#include <gtest/gtest.h>

#include <map>

#include "interop/zip/directory.hpp"
#include "interop/zip/sink.hpp"

namespace cfck::test {
namespace {

using interop::ZipItem;
using interop::ZipMember;
using interop::ZipSink;

// Keeps short writes only; the rest of the file reads as zeros.
class SparseFile final : public ByteSink, public ByteSource {
 public:
  Result<void> write(ByteView bytes) override {
    if (bytes.size() < 4096) {
      for (std::size_t i = 0; i < bytes.size(); ++i) kept_[n_bytes_ + i] = bytes[i];
    }
    n_bytes_ += bytes.size();
    return {};
  }
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    for (auto at = kept_.lower_bound(offset_bytes);
         at != kept_.end() && at->first < offset_bytes + out.size(); ++at) {
      out[at->first - offset_bytes] = at->second;
    }
    return {};
  }

 private:
  std::map<std::uint64_t, std::byte> kept_;
  std::uint64_t n_bytes_ = 0;
};

void expect_members(const ByteSource& file, const std::vector<ZipItem>& items) {
  const auto members = interop::read_zip_directory(file);
  ASSERT_TRUE(members) << members.error().message;
  ASSERT_EQ(members->size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ZipMember& member = (*members)[i];
    ASSERT_EQ(member.name, items[i].name);
    ASSERT_EQ(member.n_bytes, items[i].n_bytes);
    ASSERT_EQ(member.offset_bytes % 64, 0U);
    ASSERT_TRUE(member.stored);
  }
}

TEST(ZipSink, MembersAbove4GiB) {
  SparseFile file;
  const std::vector<ZipItem> items = {
      {"first", 3}, {"large", (std::uint64_t{1} << 32) + 5}, {"empty", 0}, {"behind", 10}};
  ZipSink sink(file, items);
  std::uint64_t left_bytes = 0;
  for (const ZipItem& item : items) left_bytes += item.n_bytes;
  const std::vector<std::byte> zeros(std::size_t{16} << 20);
  while (left_bytes > 0) {
    const ByteView part = ByteView(zeros).first(std::min<std::uint64_t>(zeros.size(), left_bytes));
    ASSERT_TRUE(sink.write(part));
    left_bytes -= part.size();
  }
  ASSERT_TRUE(sink.finish());
  EXPECT_EQ(sink.file_bytes(), file.size());
  expect_members(file, items);
}

TEST(ZipSink, MoreMembersThan65535) {
  MemorySink file;
  std::vector<ZipItem> items;
  for (int i = 0; i < 70'000; ++i) items.push_back({"m" + std::to_string(i), 1});
  ZipSink sink(file, items);
  ASSERT_TRUE(sink.write(std::vector<std::byte>(items.size())));
  ASSERT_TRUE(sink.finish());
  expect_members(MemorySource(file.bytes()), items);
}

TEST(ZipSink, WantsExactlyTheContents) {
  MemorySink file;
  ZipSink sink(file, {{"a", 4}});
  ASSERT_TRUE(sink.write(std::vector<std::byte>(3)));
  EXPECT_FALSE(sink.finish());
  ZipSink other(file, {{"a", 4}});
  EXPECT_FALSE(other.write(std::vector<std::byte>(5)));
}

TEST(ZipSink, NoMembers) {
  MemorySink file;
  ZipSink sink(file, {});
  ASSERT_TRUE(sink.finish());
  expect_members(MemorySource(file.bytes()), {});
}

}  // namespace
}  // namespace cfck::test
