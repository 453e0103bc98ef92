#include "base/files/access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/xattr.h>
#endif

#include <cerrno>

namespace cfck::detail {
namespace {

constexpr mode_t kGroupBits = 0070;

#if defined(__linux__)
constexpr const char* kList = "system.posix_acl_access";
constexpr const char* kGivenList = "system.posix_acl_default";

std::string list_of(const std::string& path, const char* name) {
  std::string list(std::size_t{64} << 10, '\0');  // as long as the system allows
  const ssize_t n_bytes = ::getxattr(path.c_str(), name, list.data(), list.size());
  list.resize(n_bytes > 0 ? static_cast<std::size_t>(n_bytes) : 0);
  return list;
}

bool give_list(int descriptor, const char* name, const std::string& list) noexcept {
  return list.empty() || ::fsetxattr(descriptor, name, list.data(), list.size(), 0) == 0;
}

// A list that the folder gave to its new entries could allow more than there was.
bool drop_list(int descriptor, const char* name) noexcept {
  return ::fremovexattr(descriptor, name) == 0 || errno == ENODATA || errno == ENOTSUP;
}
#endif

// Takes from the group what not everybody may do.
mode_t without_group(mode_t mode) noexcept {
  return (mode & ~kGroupBits) | (mode & kGroupBits & ((mode & 0007) << 3));
}

}  // namespace

std::optional<Access> access_of(const std::string& path) noexcept {
  try {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return std::nullopt;
    Access access{info.st_mode & 0777, info.st_uid, info.st_gid, {}, {}};
#if defined(__linux__)
    access.list = list_of(path, kList);
    if (S_ISDIR(info.st_mode)) access.given_in_it = list_of(path, kGivenList);
#endif
    return access;
  } catch (...) {
    return std::nullopt;
  }
}

mode_t first_mode(const Access& access) noexcept { return without_group(access.mode); }

void give_access(int descriptor, const Access& access, bool keeps_owner) noexcept {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return;
  if (keeps_owner && info.st_uid != access.owner) {
    (void)::fchown(descriptor, access.owner, static_cast<gid_t>(-1));
  }
  bool has_group = info.st_gid == access.group;
  if (keeps_owner && !has_group) {
    has_group = ::fchown(descriptor, static_cast<uid_t>(-1), access.group) == 0;
  }
  bool has_list = has_group;
#if defined(__linux__)
  if (has_group && !access.list.empty()) {
    has_list = give_list(descriptor, kList, access.list);
  } else {
    (void)drop_list(descriptor, kList);
  }
  if (has_group && !access.given_in_it.empty()) {
    (void)give_list(descriptor, kGivenList, access.given_in_it);
  }
#endif
  // With an access list the bits of the group are its mask, which allows the group itself less.
  const mode_t mode = has_list ? access.mode : without_group(access.mode);
  const mode_t kept = info.st_mode & (S_ISGID | S_ISVTX);  // which folders inherit
  if (::fstat(descriptor, &info) == 0 && (info.st_mode & 0777) == mode) return;
  (void)::fchmod(descriptor, mode | kept);
}

void copy_access(const std::string& from, const std::string& to) noexcept {
  const auto access = access_of(from);
  const int descriptor =
      access ? ::open(to.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
  if (descriptor < 0) return;
  give_access(descriptor, *access, true);
  ::close(descriptor);
}

Result<std::unique_ptr<File>> create_like(FileSystem& files, const std::string& path,
                                          const std::string& like, bool keeps_owner) {
  auto* const creator = dynamic_cast<CreatesWithAccess*>(&files);
  const auto access = creator == nullptr || like.empty() ? std::nullopt : access_of(like);
  return access ? creator->create_with(path, *access, keeps_owner) : files.create_exclusive(path);
}

Result<std::unique_ptr<File>> FilesLike::create_with(const std::string& path, const Access& access,
                                                     bool keeps_owner) {
  auto* const creator = dynamic_cast<CreatesWithAccess*>(&inner_);
  return creator != nullptr ? creator->create_with(path, access, keeps_owner)
                            : inner_.create_exclusive(path);
}

}  // namespace cfck::detail
