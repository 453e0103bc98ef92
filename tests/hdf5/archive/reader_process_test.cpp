// The program that reads HDF5 files, and what becomes of its processes.
#include "hdf5/archive/reader_process.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "hdf5/archive/element_taker.hpp"
#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/hdf5/archive/made_files.hpp"
#include "tests/support/sanitizer.hpp"

namespace cfck::hdf5 {
namespace {

using test::kHasSanitizer;

constexpr JobLimits kLimits = {10, std::uint64_t{1} << 30};

JobRequest listing_of(const ByteSource& source, JobLimits limits = kLimits) {
  JobRequest request;
  request.limits = limits;
  request.file_bytes = source.size();
  return request;
}

Result<void> nothing(MessageKind, ByteView) { return {}; }

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text;
}

// A variable by which the program of this process is told from those of other tests.
std::string mark() { return "HDF5_PLUGIN_MARK=" + std::to_string(::getpid()); }

bool is_reader_of_this(const std::string& process) {
  return contents_of("/proc/" + process + "/cmdline").find(kReaderProgram) != std::string::npos &&
         contents_of("/proc/" + process + "/environ").find(mark()) != std::string::npos;
}

// The process that does a job of this process.
std::optional<pid_t> working_process() {
  DIR* const processes = ::opendir("/proc");
  std::optional<pid_t> found;
  while (const dirent* const entry = ::readdir(processes)) {
    const std::string process = entry->d_name;
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!is_reader_of_this(process)) continue;
    const std::string stat = contents_of("/proc/" + process + "/stat");
    const std::size_t end = stat.rfind(')');
    if (end == std::string::npos) continue;
    const int parent = std::atoi(stat.c_str() + end + 4);  // ") S PARENT"
    if (is_reader_of_this(std::to_string(parent))) found = std::atoi(process.c_str());
  }
  ::closedir(processes);
  return found;
}

// Ends the process that reads with a signal, when it asks for bytes.
class Killing final : public ByteSource {
 public:
  Killing(std::vector<std::byte> bytes, int signal) : bytes_(std::move(bytes)), signal_(signal) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    const auto process = working_process();
    EXPECT_TRUE(process.has_value());
    if (process) ::kill(*process, signal_);
    std::memcpy(out.data(), bytes_.data() + offset_bytes, out.size());
    return {};
  }

 private:
  std::vector<std::byte> bytes_;
  int signal_;
};

TEST(Hdf5Reader, TheErrorSaysHowTheProcessEnded) {
  ::setenv("HDF5_PLUGIN_MARK", std::to_string(::getpid()).c_str(), 1);
  const auto code_after = [](int signal) {
    const Killing source(test::sample_file(), signal);
    const auto done = run_job(listing_of(source), source, &nothing);
    EXPECT_FALSE(done.has_value());
    return done ? ErrorCode::kInternal : done.error().code;
  };
  // Sanitizers catch this signal and end the process themselves.
  if (!kHasSanitizer) {
    EXPECT_EQ(code_after(SIGSEGV), ErrorCode::kCorrupt);
  }
  EXPECT_EQ(code_after(SIGINT), ErrorCode::kCancelled);
  EXPECT_EQ(code_after(SIGKILL), ErrorCode::kIo);
  EXPECT_EQ(code_after(SIGXCPU), ErrorCode::kLimitExceeded);
  ::unsetenv("HDF5_PLUGIN_MARK");
}

TEST(Hdf5Reader, MemoryHasALimit) {
  if (kHasSanitizer) GTEST_SKIP() << "memory that cannot be had ends the process";
  constexpr std::uint64_t kElems = std::uint64_t{4} << 20;
  const auto bytes =
      test::made_file([](hid_t file) { test::put_floats(file, "w", {kElems}, {kElems}); });
  const MemorySource file(bytes);
  JobRequest request = listing_of(file, {60, std::uint64_t{8} << 20});
  request.name = "w";
  request.dtype = DType::kF32;
  request.boxes = {whole_box({kElems})};
  const auto done = run_job(request, file, &nothing);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(done.error().message.find("8 MiB"), std::string::npos) << done.error().message;
}

TEST(Hdf5Reader, ErrorsComeBackWithAllThatTheySay) {
  const Error sent = corrupt("what is \xff wrong").at_byte(std::uint64_t{1} << 60).in_record("w");
  const Error received = error_of(text_of(sent));
  EXPECT_EQ(received.code, ErrorCode::kCorrupt);
  EXPECT_EQ(received.message, sent.message);
  EXPECT_EQ(received.record, "w");
  EXPECT_EQ(received.byte_offset, sent.byte_offset);
  EXPECT_FALSE(error_of(text_of(io_error(std::string(300'000, 'x')))).byte_offset.has_value());
}

class Failing final : public ByteSource {
 public:
  std::uint64_t size() const override { return 1000; }
  Result<void> read_at(std::uint64_t, MutableBytes) const override {
    return io_error("the network is down");
  }
};

TEST(Hdf5Reader, ErrorsOfTheSourceComeThrough) {
  const Failing source;
  const auto done = run_job(listing_of(source), source, &nothing);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "the network is down");
}

TEST(Hdf5Reader, IsNobodysChildAndOutlivesItsEnd) {
  const auto bytes = test::sample_file();
  const MemorySource source(bytes);
  ASSERT_TRUE(run_job(listing_of(source), source, &nothing));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  // A change of what it is told starts another one.
  ::setenv("HDF5_PLUGIN_PATH", "/nowhere", 1);
  ASSERT_TRUE(run_job(listing_of(source), source, &nothing));
  ::unsetenv("HDF5_PLUGIN_PATH");
  ASSERT_TRUE(run_job(listing_of(source), source, &nothing));
}

TEST(Hdf5Reader, ManyThreadsReadSideBySide) {
  const auto bytes = test::sample_file();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        const auto archive = open(std::make_unique<OwnedMemorySource>(bytes));
        ASSERT_TRUE(archive.has_value());
        const auto read = (*archive)->read("layers/packed");
        ASSERT_TRUE(read.has_value());
        float last = 0;
        std::memcpy(&last, read->bytes().data() + 116 * sizeof(float), sizeof(last));
        EXPECT_EQ(last, 116);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Hdf5Reader, CopiesOfAProcessReadToo) {
  const auto bytes = test::sample_file();
  const MemorySource source(bytes);
  ASSERT_TRUE(run_job(listing_of(source), source, &nothing));
  const pid_t copy = ::fork();
  if (copy == 0) ::_exit(run_job(listing_of(source), source, &nothing) ? 0 : 1);
  ASSERT_TRUE(run_job(listing_of(source), source, &nothing));
  int status = -1;
  ASSERT_EQ(::waitpid(copy, &status, 0), copy);
  EXPECT_EQ(status, 0);
}

std::vector<std::byte> piece(const std::vector<std::uint64_t>& words, std::size_t n_bytes) {
  std::vector<std::byte> bytes(words.size() * 8 + n_bytes, std::byte{1});
  std::memcpy(bytes.data(), words.data(), words.size() * 8);
  return bytes;
}

TEST(Hdf5Reader, PiecesThatDoNotFitAreRefused) {
  std::vector<std::byte> out(40);
  const std::vector<Box> boxes = {{{2, 3}, {4, 6}}, {{5, 0}, {6, 4}}};  // 6 and 4 elements
  const ElementTaker taker(boxes, 4, out);
  EXPECT_TRUE(taker.take(MessageKind::kPiece, piece({1, 5, 1, 6, 3}, 8)));
  EXPECT_EQ(out[24 + 3], std::byte{0});
  EXPECT_EQ(out[24 + 4], std::byte{1});
  EXPECT_EQ(out[24 + 11], std::byte{1});
  EXPECT_EQ(out[24 + 12], std::byte{0});
  for (const auto& [words, n_bytes] :
       std::vector<std::pair<std::vector<std::uint64_t>, std::size_t>>{
           {{2, 2, 3, 3, 4}, 4},   // no such box
           {{0, 1, 3, 3, 4}, 8},   // outside of the box
           {{0, 2, 3, 5, 6}, 36},  //
           {{0, 3, 3, 3, 4}, 0},   // empty
           {{0, 4, 3, 2, 4}, 4},   // backwards
           {{0, 2, 3, 3, 4}, 5},   // too many bytes
           {{0, 2, 3, 3, 4}, 3},   // too few
           {{0, 2, 3, 3}, 0},      // no place
           {{}, 3},                //
           {{0, 0, 0, ~0ULL, ~0ULL}, 4}}) {
    EXPECT_FALSE(taker.take(MessageKind::kPiece, piece(words, n_bytes)));
  }
  EXPECT_FALSE(taker.take(MessageKind::kFill, piece({}, 3)));
}

}  // namespace
}  // namespace cfck::hdf5
