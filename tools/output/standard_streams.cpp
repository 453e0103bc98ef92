#include "tools/output/standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/text.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr std::size_t kPipeBytes = PIPE_BUF;  // what POLLOUT promises to take at once
constexpr int kPollMilliseconds = 100;        // between looks at interrupt_signal()

Error stream_problem(const std::string& what, int number) {
  return io_error(what + ": " + std::generic_category().message(number));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// Waits until the stream can be used. A signal does not interrupt reading, so that waiting here
// makes sure that it is noticed.
Result<void> wait_for(int descriptor, short event) {
  while (true) {
    if (interrupt_signal() != 0) return cancelled();
    pollfd waiting{descriptor, event, 0};
    const int n_ready = ::poll(&waiting, 1, kPollMilliseconds);
    if (n_ready > 0) return {};
    if (n_ready < 0 && errno != EINTR) return stream_problem("cannot wait for a stream", errno);
  }
}

Result<void> write_to_file(int file, std::span<const char> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n_bytes = ::write(file, bytes.data(), bytes.size());
    if (n_bytes < 0 && errno == EINTR) continue;
    if (n_bytes < 0) {
      // Messages call the copy "-"; what is full is around the folder that it has to itself.
      const int number = errno;
      const std::string around = fs::path(path).parent_path().parent_path().string();
      return stream_problem("cannot keep standard input in '" + escaped(around) +
                                "'; the environment variable TMPDIR can name a folder with more "
                                "room",
                            number);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n_bytes));
  }
  return {};
}

// Returns false at a closed pipe.
Result<bool> write_to_output(std::span<const char> bytes) {
  while (!bytes.empty()) {
    CFCK_TRY(wait_for(STDOUT_FILENO, POLLOUT));
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kPipeBytes));
    const ssize_t n_bytes = ::write(STDOUT_FILENO, part.data(), part.size());
    if (n_bytes < 0 && errno == EPIPE) return false;
    if (n_bytes < 0 && errno == EINTR) continue;
    if (n_bytes < 0) return stream_problem("cannot write to standard output", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n_bytes));
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    return io_error("there is no folder for temporary files; set the environment variable TMPDIR");
  }
  std::string pattern = (parent / "cfck-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    return stream_problem("cannot make a folder in '" + escaped(parent.string()) + "'", errno);
  }
  return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(pattern));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<void> store_standard_input(const std::string& path) {
  if (::isatty(STDIN_FILENO) != 0) {
    return invalid_argument("standard input is a terminal; name a file, or use a pipe");
  }
  // The folder is private. An output gets the permissions of its input: here those of any new file.
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.number() < 0) return stream_problem("cannot create '" + escaped(path) + "'", errno);
  std::vector<char> buffer(kPartBytes);
  while (true) {
    CFCK_TRY(wait_for(STDIN_FILENO, POLLIN));
    const ssize_t n_bytes = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n_bytes == 0) return {};
    if (n_bytes < 0 && errno == EINTR) continue;
    if (n_bytes < 0) return stream_problem("cannot read standard input", errno);
    CFCK_TRY(write_to_file(file.number(),
                           std::span(buffer).first(static_cast<std::size_t>(n_bytes)), path));
  }
}

Result<void> check_standard_output() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  return invalid_argument(
      "standard output is a terminal, which is not for the bytes of files; name a file, or use a "
      "pipe");
}

Result<bool> copy_to_standard_output(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) return stream_problem("cannot open '" + escaped(path) + "'", errno);
  std::vector<char> buffer(kPartBytes);
  while (true) {
    const ssize_t n_bytes = ::read(file.number(), buffer.data(), buffer.size());
    if (n_bytes == 0) return true;
    if (n_bytes < 0 && errno == EINTR) continue;
    if (n_bytes < 0) return stream_problem("cannot read '" + escaped(path) + "'", errno);
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(n_bytes));
    CFCK_TRY_ASSIGN(const bool goes_on, write_to_output(bytes));
    if (!goes_on) return false;
  }
}

}  // namespace cfck::tools
