#include "base/files/locks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#if defined(__linux__)
#include <sys/vfs.h>
#endif

#include "base/files/temporary_names.hpp"

namespace cfck::detail {
namespace {

// Appended bytes are locked up to here; the byte after it stands for the whole file.
constexpr off_t kAppendEnd = std::numeric_limits<off_t>::max() - 1;
constexpr off_t kHeldByte = kAppendEnd;

#if defined(F_OFD_SETLK)
struct flock lock_of(short type, off_t start, off_t n_bytes) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = n_bytes;
  return lock;
}

bool is_taken(int error_number) noexcept {
  return error_number == EAGAIN || error_number == EACCES;
}

bool try_lock(int descriptor, off_t start, off_t n_bytes) noexcept {
  struct flock lock = lock_of(F_WRLCK, start, n_bytes);
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0 || !is_taken(errno);
}
#endif

// Locks a file that nobody holds. Returns false also where locks do not work.
bool lock_leftover(int descriptor) noexcept {
#if defined(F_OFD_SETLK)
  struct flock lock = lock_of(F_WRLCK, kHeldByte, 1);
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
#else
  (void)descriptor;
  return false;
#endif
}

// The file is removed while it is locked: a process that makes a file of the same name finds out
// (FileSystem::create_exclusive) and takes another name.
void remove_if_leftover(int folder, const char* name) noexcept {
  const int descriptor = ::openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    return;
  }
  struct stat info {};
  struct stat named {};
  const bool may_go = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                      info.st_nlink == 1 && is_leftover(descriptor);
  if (may_go && lock_leftover(descriptor) &&
      ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == info.st_ino &&
      named.st_dev == info.st_dev) {
    (void)::unlinkat(folder, name, 0);
  }
  ::close(descriptor);
}

}  // namespace

void lock_append(int descriptor, std::uint64_t offset_bytes) noexcept {
#if defined(F_OFD_SETLK)
  if (offset_bytes < static_cast<std::uint64_t>(kAppendEnd)) {  // writing behind it fails
    const auto start = static_cast<off_t>(offset_bytes);
    (void)try_lock(descriptor, start, kAppendEnd - start);
  }
#else
  (void)descriptor;
  (void)offset_bytes;
#endif
}

std::optional<std::uint64_t> start_of_append(int descriptor) noexcept {
#if defined(F_OFD_SETLK)
  struct flock lock = lock_of(F_RDLCK, 0, kAppendEnd);
  // Locks of other programs rarely end exactly there; one of the whole file starts at 0.
  if (::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_start > 0 &&
      lock.l_len == kAppendEnd - lock.l_start) {
    return static_cast<std::uint64_t>(lock.l_start);
  }
#else
  (void)descriptor;
#endif
  return std::nullopt;
}

bool lock_held(int descriptor) noexcept {
#if defined(F_OFD_SETLK)
  return try_lock(descriptor, kHeldByte, 1);
#else
  (void)descriptor;
  return true;
#endif
}

void release_locks(int descriptor) noexcept {
#if defined(F_OFD_SETLK)
  struct flock lock = lock_of(F_UNLCK, 0, 0);
  (void)::fcntl(descriptor, F_OFD_SETLK, &lock);
#endif
  (void)::flock(descriptor, LOCK_UN);
}

bool has_local_locks(int descriptor) noexcept {
#if defined(__linux__)
  // ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS, ZFS, ramfs, bcachefs, FAT, exFAT, JFS
  constexpr std::array<std::uint32_t, 12> kLocal = {0xEF53,     0x58465342, 0x9123683E, 0x01021994,
                                                    0x794C7630, 0xF2F52010, 0x2FC12FC1, 0x858458F6,
                                                    0xCA451A4E, 0x4D44,     0x2011BAB0, 0x3153464A};
  struct statfs info {};
  return ::fstatfs(descriptor, &info) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), static_cast<std::uint32_t>(info.f_type)) !=
             kLocal.end();
#else
  (void)descriptor;
  return false;
#endif
}

void remove_leftover_files(const char* folder) noexcept {
  DIR* const entries = ::opendir(folder);
  if (entries == nullptr) {
    return;
  }
  while (const dirent* const entry = ::readdir(entries)) {
    if (is_temporary_name(entry->d_name)) {
      remove_if_leftover(::dirfd(entries), entry->d_name);
    }
  }
  ::closedir(entries);
}

}  // namespace cfck::detail
