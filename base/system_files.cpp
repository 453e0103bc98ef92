// FileSystem over POSIX calls.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "base/text.hpp"
#include "cfck/io.hpp"

namespace cfck {
namespace {

// Linux transfers at most a bit less than 2 GiB at once.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

Error system_error(const char* action, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT   ? ErrorCode::kNotFound
                         : number == EEXIST ? ErrorCode::kInvalidArgument
                         : number == ENOMEM ? ErrorCode::kOutOfMemory
                                            : ErrorCode::kIo;
  return Error{code,
               std::string("cannot ") + action + " '" + escaped(path) +
                   "': " + std::generic_category().message(number),
               {},
               {}};
}

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~PosixFile() override {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Result<std::uint64_t> size() const override;
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override;
  Result<void> sync() override;
  void sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override;
  void reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override;
  Result<void> truncate(std::uint64_t n_bytes) override;
  Result<void> lock() override;
  Result<void> close() override;

 private:
  int descriptor_;
  std::string path_;
};

// Whether off_t holds every offset of the range.
bool fits_offset(std::uint64_t offset_bytes, std::uint64_t n_bytes) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  return n_bytes <= kMax && offset_bytes <= kMax - n_bytes;
}

Result<std::uint64_t> PosixFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) {
    return system_error("find the size of", path_, errno);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

Result<void> PosixFile::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  while (!out.empty()) {
    if (!fits_offset(offset_bytes, out.size())) {
      return system_error("read", path_, EOVERFLOW);
    }
    const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kMaxTransferBytes),
                                static_cast<off_t>(offset_bytes));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return system_error("read", path_, errno);
    }
    if (got == 0) {
      return Error{ErrorCode::kTruncated,
                   "'" + escaped(path_) + "' ends before byte " +
                       std::to_string(offset_bytes + out.size()) +
                       "; it may have been cut while it was being read",
                   {},
                   offset_bytes};
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset_bytes += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> PosixFile::write_at(std::uint64_t offset_bytes, ByteView bytes) {
  while (!bytes.empty()) {
    if (!fits_offset(offset_bytes, bytes.size())) {
      return system_error("write", path_, EFBIG);
    }
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes),
                 static_cast<off_t>(offset_bytes));
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      return system_error("write", path_, errno);
    }
    if (put == 0) {
      return system_error("write", path_, ENOSPC);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset_bytes += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> PosixFile::sync() {
  int failed = 0;
  do {
    failed = ::fsync(descriptor_);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) {
    return system_error("sync", path_, errno);
  }
  return {};
}

void PosixFile::sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept {
#if defined(__linux__)
  // Whatever fails here fails, and is reported, in sync() too.
  if (fits_offset(offset_bytes, n_bytes)) {
    (void)::sync_file_range(descriptor_, static_cast<off64_t>(offset_bytes),
                            static_cast<off64_t>(n_bytes), SYNC_FILE_RANGE_WRITE);
  }
#else
  (void)offset_bytes;
  (void)n_bytes;
#endif
}

void PosixFile::reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept {
#if defined(__linux__)
  // Where there is no room, or no such call, writing finds out.
  if (fits_offset(offset_bytes, n_bytes)) {
    (void)::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_bytes),
                      static_cast<off_t>(n_bytes));
  }
#else
  (void)offset_bytes;
  (void)n_bytes;
#endif
}

Result<void> PosixFile::truncate(std::uint64_t n_bytes) {
  if (!fits_offset(n_bytes, 0)) {
    return system_error("truncate", path_, EFBIG);
  }
  int failed = 0;
  do {
    failed = ::ftruncate(descriptor_, static_cast<off_t>(n_bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) {
    return system_error("truncate", path_, errno);
  }
  return {};
}

Result<void> PosixFile::lock() {
  int failed = 0;
  do {
    failed = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno == EWOULDBLOCK) {
    return Error{ErrorCode::kIo,
                 "'" + escaped(path_) + "' is being changed by another writer; try again later",
                 {},
                 {}};
  }
  struct stat info {};
  if (failed != 0 || ::fstat(descriptor_, &info) != 0) {
    return system_error("lock", path_, errno);
  }
  if (info.st_nlink == 0) {
    return Error{ErrorCode::kIo,
                 "'" + escaped(path_) + "' was replaced while it was being opened; try again",
                 {},
                 {}};
  }
  return {};
}

Result<void> PosixFile::close() {
  if (descriptor_ < 0) {
    return {};
  }
  // After EINTR the descriptor is closed on Linux; closing twice could hit
  // another thread's file.
  const int failed = ::close(descriptor_);
  descriptor_ = -1;
  if (failed != 0 && errno != EINTR) {
    return system_error("close", path_, errno);
  }
  return {};
}

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    return open("open", path, O_RDONLY);
  }
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override {
    return open("open for writing", path, O_RDWR);
  }
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    return open("create", path, O_RDWR | O_CREAT | O_EXCL);
  }
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_directory(const std::string& path) override;
  bool exists(const std::string& path) override;

 private:
  static Result<std::unique_ptr<File>> open(const char* action, const std::string& path, int flags);
};

Result<std::unique_ptr<File>> PosixFileSystem::open(const char* action, const std::string& path,
                                                    int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) {
    return system_error(action, path, errno);
  }
  auto file = std::make_unique<PosixFile>(descriptor, path);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    return system_error(action, path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    return system_error(action, path, EISDIR);
  }
  return std::unique_ptr<File>(std::move(file));
}

Result<void> PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return system_error("rename a finished file to", to, errno);
  }
  return {};
}

Result<void> PosixFileSystem::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    return system_error("remove", path, errno);
  }
  return {};
}

Result<void> PosixFileSystem::sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return system_error("open folder", path, errno);
  }
  int failed = 0;
  do {
    failed = ::fsync(descriptor);
  } while (failed != 0 && errno == EINTR);
  const int number = errno;
  ::close(descriptor);
  // Some network file systems cannot sync folders and say so with EINVAL.
  if (failed != 0 && number != EINVAL && number != ENOTSUP) {
    return system_error("sync folder", path, number);
  }
  return {};
}

bool PosixFileSystem::exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

FileSystem& system_files() {
  static PosixFileSystem files;
  return files;
}

}  // namespace cfck
