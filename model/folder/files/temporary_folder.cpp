#include "model/folder/files/temporary_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files/access.hpp"
#include "base/files/temporary_names.hpp"
#include "base/text.hpp"
#include "model/folder/files/folder_names.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxAttempts = 100;

// Returns -1 if the path is no folder, or if it is in use; else the descriptor of the folder, which
// is locked, or cannot be because its file system has no locks.
int lock_folder(const std::string& path, bool needs_lock) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 &&
      (needs_lock || errno == EWOULDBLOCK)) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

void remove_leftover_folders(const fs::path& parent) {
  const auto names = names_in(parent.string());
  if (!names) return;
  for (const std::string& name : *names) {
    if (!is_temporary_name(name)) continue;
    const std::string path = (parent / name).string();
    const int descriptor = lock_folder(path, true);
    if (descriptor < 0) continue;
    if (is_leftover(descriptor)) remove_folder(path);
    ::close(descriptor);
  }
}

}  // namespace

bool TemporaryFolder::hold() {
  descriptor_ = lock_folder(path_, false);
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0 || info.st_nlink == 0) return false;
  mode_ = info.st_mode & 07777;
  (void)::fchmod(descriptor_, mode_ & ~mode_t{0077});
  return true;
}

void TemporaryFolder::open_up(const std::string& like) noexcept {
  if (const auto access = access_of(like)) {
    give_access(descriptor_, *access, false);
  } else {
    (void)::fchmod(descriptor_, mode_);
  }
}

Result<void> make_parents_like(const std::string& folder, const std::string& name,
                               const std::string& like) {
  for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
    const std::string below = name.substr(0, end);
    const std::string path = folder + "/" + below;
    const auto access = access_of(like + "/" + below);
    if (::mkdir(path.c_str(), access ? first_mode(*access) : 0777) != 0) {
      if (errno == EEXIST) continue;
      return io_error("cannot create the folder '" + escaped(path) +
                      "': " + std::generic_category().message(errno));
    }
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    // This process puts files into it.
    if (access) {
      Access own = *access;
      own.mode |= 0300;
      give_access(descriptor, own, false);
    }
    ::close(descriptor);
  }
  return {};
}

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::create(const std::string& target) {
  remove_leftover_folders(fs::path(target).parent_path());
  std::error_code error;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    std::string path = temporary_path(target);
    // The object is created before the folder, so that its destructor removes the folder.
    auto folder = std::unique_ptr<TemporaryFolder>(new TemporaryFolder());
    if (!fs::create_directory(path, error)) {
      if (!error) continue;  // there is one of this name
      return Error{ErrorCode::kIo,
                   "cannot create the folder '" + escaped(path) + "': " + error.message(),
                   {},
                   {}};
    }
    folder->path_ = std::move(path);
    if (folder->hold()) return folder;
  }
  return Error{ErrorCode::kIo,
               "cannot create a temporary folder beside '" + escaped(target) + "'; try again",
               {},
               {}};
}

void TemporaryFolder::remove() noexcept {
  if (!path_.empty()) remove_folder(path_);
  path_.clear();
}

TemporaryFolder::~TemporaryFolder() {
  remove();
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace cfck::model
