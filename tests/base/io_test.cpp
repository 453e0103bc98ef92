#include "cfck/io.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/fault_files.hpp"

namespace cfck {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const ByteView view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

class Io : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "cfck_io_" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(Io, MemoryIsReadByRange) {
  const auto bytes = bytes_of("0123456789");
  const MemorySource source(bytes);
  std::vector<std::byte> out(4);
  ASSERT_TRUE(source.read_at(3, out));
  EXPECT_EQ(out, bytes_of("3456"));
  EXPECT_TRUE(source.read_at(10, {}));
  EXPECT_EQ(source.read_at(7, out).error().code, ErrorCode::kTruncated);
  EXPECT_EQ(source.read_at(~std::uint64_t{0}, out).error().code, ErrorCode::kTruncated);
  EXPECT_EQ(source.mapped().size(), 10U);
}

TEST_F(Io, MemorySinkCollects) {
  MemorySink sink;
  ASSERT_TRUE(sink.write(bytes_of("ab")));
  ASSERT_TRUE(sink.write({}));
  ASSERT_TRUE(sink.write(bytes_of("c")));
  EXPECT_EQ(sink.take(), bytes_of("abc"));
}

TEST_F(Io, FilesAreReadTheSameInBothModes) {
  std::ofstream(path("f")) << "0123456789";
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    const auto source = open_file(path("f"), mode);
    ASSERT_TRUE(source);
    EXPECT_EQ((*source)->size(), 10U);
    EXPECT_EQ((*source)->name(), path("f"));
    std::vector<std::byte> out(3);
    ASSERT_TRUE((*source)->read_at(7, out));
    EXPECT_EQ(out, bytes_of("789"));
    EXPECT_EQ((*source)->read_at(8, out).error().code, ErrorCode::kTruncated);
    EXPECT_EQ((*source)->mapped().size(), mode == ReadMode::kMmap ? 10U : 0U);
  }
}

TEST_F(Io, EmptyFilesCanBeMapped) {
  std::ofstream(path("empty"));
  const auto source = open_file(path("empty"), ReadMode::kMmap);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), 0U);
}

TEST_F(Io, ErrorsNameThePath) {
  const auto missing = open_file(path("no\nfile"));
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("no\\nfile"), std::string::npos);
  EXPECT_EQ(open_file(folder_).error().code, ErrorCode::kIo);
  std::ofstream(path("taken"));
  EXPECT_EQ(system_files().create_exclusive(path("taken")).error().code, ErrorCode::kExists);
  EXPECT_EQ(system_files().remove(path("missing")).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(system_files().rename(path("missing"), path("x")));
  EXPECT_FALSE(system_files().sync_directory(path("missing")));
}

TEST_F(Io, AFileThatShrinksIsTruncated) {
  std::ofstream(path("f")) << "0123456789";
  const auto source = open_file(path("f"));
  ASSERT_TRUE(source);
  std::filesystem::resize_file(path("f"), 4);
  std::vector<std::byte> out(8);
  EXPECT_EQ((*source)->read_at(0, out).error().code, ErrorCode::kTruncated);
}

TEST_F(Io, FilesCanBeWrittenAnywhere) {
  auto file = system_files().create_exclusive(path("new"));
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write_at(4, bytes_of("abc")));
  ASSERT_TRUE((*file)->write_at(0, bytes_of("0123")));
  EXPECT_EQ((*file)->size().value(), 7U);
  ASSERT_TRUE((*file)->truncate(5));
  ASSERT_TRUE((*file)->sync());
  ASSERT_TRUE((*file)->close());
  EXPECT_TRUE((*file)->close());
  auto again = system_files().open_read_write(path("new"));
  ASSERT_TRUE(again);
  std::vector<std::byte> out(5);
  ASSERT_TRUE((*again)->read_at(0, out));
  EXPECT_EQ(out, bytes_of("0123a"));
  EXPECT_FALSE((*again)->read_at(std::uint64_t{1} << 63, out));
  EXPECT_FALSE((*again)->write_at(std::uint64_t{1} << 63, out));
  EXPECT_FALSE((*again)->truncate(std::uint64_t{1} << 63));
}

TEST_F(Io, DescriptorsAreNotInherited) {
  std::ofstream(path("f")) << "x";
  const auto source = open_file(path("f"));
  ASSERT_TRUE(source);
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) ==
        std::filesystem::canonical(path("f"))) {
      found = true;
      EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(Io, WritingToAFullDeviceFails) {
  auto file = system_files().open_read_write("/dev/full");
  ASSERT_TRUE(file);
  const Result<void> written = (*file)->write_at(0, bytes_of("x"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_NE(written.error().message.find("No space left"), std::string::npos);
}

TEST_F(Io, FaultsComeWhenAskedFor) {
  test::FaultFiles files;
  files.set_fault(test::Fault{1, test::Operation::kWrite, false, 28, 2});
  auto file = files.create_exclusive(path("f"));
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->write_at(0, bytes_of("aaaa")));
  EXPECT_EQ((*file)->write_at(4, bytes_of("bbbb")).error().code, ErrorCode::kIo);
  EXPECT_TRUE((*file)->write_at(8, bytes_of("cccc")));
  EXPECT_EQ(files.failures(), 1U);
  EXPECT_EQ(files.count(test::Operation::kWrite), 3U);
  std::vector<std::byte> out(12);
  ASSERT_TRUE((*file)->read_at(0, out));
  EXPECT_EQ(out[5], std::byte{'b'});
  EXPECT_EQ(out[6], std::byte{0});
  files.reset_counts();
  files.set_fault(test::Fault{0, test::Operation::kSync, true, 5, 0});
  EXPECT_FALSE((*file)->sync());
  EXPECT_FALSE((*file)->sync());
  EXPECT_TRUE(files.trace()[0].failed);
}

TEST_F(Io, PipesSocketsAndDevicesAreRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& name : {path("pipe"), std::string("/dev/zero")}) {
    for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
      const auto source = open_file(name, mode);
      ASSERT_FALSE(source);
      EXPECT_EQ(source.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(source.error().message.find(name == path("pipe") ? "is a pipe" : "is a device"),
                std::string::npos)
          << source.error().message;
    }
  }
  EXPECT_FALSE(system_files().open_read_write(path("pipe")));
}

}  // namespace
}  // namespace cfck
