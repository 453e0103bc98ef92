// FileSystem over POSIX calls.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "base/files/access.hpp"
#include "base/files/locks.hpp"
#include "base/forks/forks.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"

namespace cfck {
namespace {

// Linux transfers at most a bit less than 2 GiB at once.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;
constexpr int kMaxSizeAttempts = 100;

Error system_error(const char* action, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT   ? ErrorCode::kNotFound
                         : number == EEXIST ? ErrorCode::kExists
                         : number == ENOMEM ? ErrorCode::kOutOfMemory
                                            : ErrorCode::kIo;
  return run_guarded([&] {
    std::string message = std::string("cannot ") + action + " '" + escaped(path) +
                          "': " + std::generic_category().message(number);
    if (number == EFBIG) {
      message += "; the file system or a limit (`ulimit -f`) allows no larger files";
    }
    return Error{code, std::move(message), {}, {}};
  });
}

// True if a file system has no such function, or none for files of this kind.
bool is_missing(int number) noexcept {
  return number == ENOSYS || number == EINVAL || number == EOPNOTSUPP || number == ENOTTY;
}

Result<void> check_regular(const char* action, const std::string& path, mode_t mode, bool writes) {
  if (S_ISREG(mode) || (writes && S_ISCHR(mode))) {
    return {};
  }
  if (S_ISDIR(mode)) {
    return system_error(action, path, EISDIR);
  }
  const char* const what = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  return run_guarded([&] {
    return unsupported("'" + escaped(path) + "' is " + what +
                       ", which does not allow random access; copy its contents into a file first");
  });
}

class PosixFile final : public File {
 public:
  explicit PosixFile(std::string path) : path_(std::move(path)) {}
  ~PosixFile() override;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  // Calls open(2) and checks that the file is a regular one.
  Result<void> open(const char* action, int flags, mode_t mode = 0666);
  void give(const Access& access, bool keeps_owner) noexcept {
    give_access(descriptor_, access, keeps_owner);
  }

  Result<std::uint64_t> size() const override;
  Result<std::uint64_t> committed_size() const override;
  int descriptor() const noexcept override { return descriptor_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override;
  Result<void> sync() override;
  void sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override;
  void reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override;
  Result<void> truncate(std::uint64_t n_bytes) override;
  Result<void> lock() override;
  Result<void> close() override;

 private:
  bool hold() noexcept;
  Error refusal(const char* reason) const;
  void release() noexcept;

  int descriptor_ = -1;
  int held_descriptor_ = -1;  // keeps the lock of hold() after close()
  bool locked_ = false;
  bool held_ = false;
  const pid_t owner_ = ::getpid();
  std::string path_;
};

PosixFile::~PosixFile() {
  release();
  for (const int descriptor : {descriptor_, held_descriptor_}) {
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

// Locks end here even if a forked child still has the file open; the child's copy of this
// object leaves its parent's locks alone.
void PosixFile::release() noexcept {
  if (owner_ != ::getpid()) {
    return;
  }
  const int descriptor = descriptor_ >= 0 ? descriptor_ : held_descriptor_;
  if (descriptor >= 0 && (locked_ || held_)) {
    release_locks(descriptor);
    locked_ = false;
    held_ = false;
  }
}

// Marks a new file as in use; false if it is gone.
bool PosixFile::hold() noexcept {
  struct stat info {};
  held_ = lock_held(descriptor_) && ::fstat(descriptor_, &info) == 0 && info.st_nlink != 0;
  return held_;
}

Result<void> PosixFile::open(const char* action, int flags, mode_t mode) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  // A pipe would make open() wait for its other end, and opening a device may act on it.
  struct stat info {};
  if ((flags & O_CREAT) == 0 && ::stat(path_.c_str(), &info) == 0) {
    CFCK_TRY(check_regular(action, path_, info.st_mode, writes));
  }
  int no_wait = (flags & O_CREAT) != 0 ? 0 : O_NONBLOCK;
  for (;;) {
    descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC | no_wait, mode);
    // Another process must give up its lease first.
    const bool leased = descriptor_ < 0 && errno == EWOULDBLOCK && no_wait != 0;
    if (descriptor_ >= 0 || (errno != EINTR && !leased)) {
      break;
    }
    no_wait = leased ? 0 : no_wait;
  }
  if (descriptor_ < 0) {
    return system_error(action, path_, errno);
  }
  if ((flags & O_CREAT) != 0) {
    // Just before that, another process may have taken the file for a leftover.
    return hold() ? Result<void>() : system_error(action, path_, EEXIST);
  }
  if (::fstat(descriptor_, &info) != 0) {
    return system_error(action, path_, errno);
  }
  return check_regular(action, path_, info.st_mode, writes);
}

// True if off_t holds every offset of the range.
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

Result<std::uint64_t> PosixFile::committed_size() const {
  for (int attempt = 0; attempt < kMaxSizeAttempts; ++attempt) {
    CFCK_TRY_ASSIGN(const std::uint64_t before, size());
    const std::optional<std::uint64_t> start = start_of_append(descriptor_);
    if (start && *start <= before) {
      return *start;
    }
    // Without a lock in between, equal sizes are not those of a file that is growing.
    CFCK_TRY_ASSIGN(const std::uint64_t after, size());
    if (!start && before == after) {
      return before;
    }
  }
  return refusal("keeps changing while it is opened; try again later");
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
      return run_guarded([&] {
        return truncated("'" + escaped(path_) + "' ends before byte " +
                         std::to_string(offset_bytes + out.size()) +
                         "; it may have been truncated while it was being read")
            .at_byte(offset_bytes);
      });
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
  if (failed != 0 && !is_missing(errno)) {
    return system_error("sync", path_, errno);
  }
  return {};
}

void PosixFile::sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept {
#if defined(__linux__)
  // A failure here also fails, and is reported, in sync().
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
  // Where there is no space, or no such call, writing will report it.
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

Error PosixFile::refusal(const char* reason) const {
  return run_guarded([&] { return io_error("'" + escaped(path_) + "' " + reason); });
}

Result<void> PosixFile::lock() {
  int failed = 0;
  do {
    failed = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno == EWOULDBLOCK) {
    return refusal("is being changed by another writer; try again later");
  }
  struct stat info {};
  // Where a file system has no locks, nothing is locked.
  if ((failed != 0 && !is_missing(errno)) || ::fstat(descriptor_, &info) != 0) {
    return system_error("lock", path_, errno);
  }
  locked_ = true;
  // From here on readers see the file as it is now.
  lock_append(descriptor_, static_cast<std::uint64_t>(info.st_size));
  if (info.st_nlink == 0) {
    return refusal("was replaced while it was being opened; try again");
  }
  return {};
}

Result<void> PosixFile::close() {
  if (descriptor_ < 0) {
    return {};
  }
  if (held_) {
    held_descriptor_ = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    if (held_descriptor_ < 0) {  // too many are open: this one stays
      held_descriptor_ = std::exchange(descriptor_, -1);
      return {};
    }
  } else {
    release();
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

class PosixFileSystem final : public FileSystem, public CreatesWithAccess {
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
  Result<std::unique_ptr<File>> create_with(const std::string& path, const Access& access,
                                            bool keeps_owner) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> exchange(const std::string& one, const std::string& other) override;
  Result<void> link(const std::string& from, const std::string& to) override;
  Result<void> make_directory(const std::string& path) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  void remove_leftovers(const std::string& folder) noexcept override {
    remove_leftover_files(folder.c_str());
  }

 private:
  static Result<std::unique_ptr<File>> open(const char* action, const std::string& path, int flags);
};

// Returns advice for a file system that never lets this name be taken; "" for other errors.
const char* advice_on_renaming(int number) noexcept {
  if (number == EBUSY || number == EXDEV) {
    return "; the name is a mount point, or leads to another file system: save under another name, "
           "and copy the file to where it is to be";
  }
  if (number == EPERM || is_missing(number)) {
    return "; files are renamed when they are complete, so that there is never half of one, and "
           "this file system does not allow that: save to another one, and copy the file from "
           "there";
  }
  return "";
}

Result<std::unique_ptr<File>> PosixFileSystem::open(const char* action, const std::string& path,
                                                    int flags) {
  // Everything that may fail for want of memory comes before the file exists.
  std::unique_ptr<PosixFile> file;
  CFCK_TRY(run_guarded([&]() -> Result<void> {
    file = std::make_unique<PosixFile>(path);
    return {};
  }));
  CFCK_TRY(file->open(action, flags));
  return std::unique_ptr<File>(std::move(file));
}

Result<std::unique_ptr<File>> PosixFileSystem::create_with(const std::string& path,
                                                           const Access& access, bool keeps_owner) {
  std::unique_ptr<PosixFile> file;
  CFCK_TRY(run_guarded([&]() -> Result<void> {
    file = std::make_unique<PosixFile>(path);
    return {};
  }));
  CFCK_TRY(file->open("create", O_RDWR | O_CREAT | O_EXCL, first_mode(access)));
  file->give(access, keeps_owner);
  return std::unique_ptr<File>(std::move(file));
}

Result<void> PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int number = errno;
    Error error = system_error("rename a finished file to", to, number);
    return run_guarded([&] {
      error.message += advice_on_renaming(number);
      return std::move(error);
    });
  }
  return {};
}

// An error for what a file system cannot do at all, unlike what it fails to do this time.
Error not_possible(const char* action, const std::string& path, int number) {
  Error error = system_error(action, path, number);
  for (const int unsupported : {ENOSYS, EINVAL, EOPNOTSUPP, EXDEV, EPERM, EMLINK, EBUSY, ELOOP}) {
    error.code = number == unsupported ? ErrorCode::kUnsupported : error.code;
  }
  return error;
}

Result<void> PosixFileSystem::exchange(const std::string& one, const std::string& other) {
#if defined(RENAME_EXCHANGE)
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) != 0) {
    return not_possible("exchange with another folder:", other, errno);
  }
  return {};
#else
  (void)one;
  return not_possible("exchange with another folder:", other, ENOSYS);
#endif
}

Result<void> PosixFileSystem::link(const std::string& from, const std::string& to) {
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) != 0) {
    return not_possible("link", to, errno);
  }
  return {};
}

Result<void> PosixFileSystem::make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) {
    return system_error("create folder", path, errno);
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
    // Files can be put into a folder that cannot be listed.
    return errno == EACCES ? Result<void>() : system_error("open folder", path, errno);
  }
  int failed = 0;
  do {
    failed = ::fsync(descriptor);
  } while (failed != 0 && errno == EINTR);
  const int number = errno;
  ::close(descriptor);
  // Some network file systems cannot sync folders.
  if (failed != 0 && !is_missing(number) && number != EBADF && number != EPERM) {
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
  static constinit MadeOnce<PosixFileSystem> files;
  return files.get([] { return PosixFileSystem(); });
}

}  // namespace cfck
