// Permissions of files and folders. A file keeps those of the file that it replaces, or of the one
// that it was made from.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/names/detail.hpp"
#include "cfck/io.hpp"

namespace cfck::detail {

struct Access {
  mode_t mode = 0;  // 0777 at most
  uid_t owner = 0;
  gid_t group = 0;
  std::string list;         // the access list as the system stores it; empty: none
  std::string given_in_it;  // of a folder: the list that its new entries get
};

// Returns nullopt where there is nothing at `path`, or no memory.
std::optional<Access> access_of(const std::string& path) noexcept;

// The bits to create a file or folder with that gets this access: whatever its group will be,
// nobody may do more than before.
mode_t first_mode(const Access& access) noexcept;

// Gives an open file or folder, created with first_mode(), this access; with its owner
// and group, if `keeps_owner`, as far as this process may. A group other than `access.group` may do
// no more than everybody. What the file system cannot keep is left out.
void give_access(int descriptor, const Access& access, bool keeps_owner) noexcept;

// Gives the file or folder `to` the access of `from`, where both exist.
void copy_access(const std::string& from, const std::string& to) noexcept;

// The interface of file systems that can create files with an access; others create plain files.
class CreatesWithAccess {
 public:
  virtual ~CreatesWithAccess() = default;
  // As FileSystem::create_exclusive(); the file has the access from its creation on, never more.
  virtual Result<std::unique_ptr<File>> create_with(const std::string& path, const Access& access,
                                                    bool keeps_owner) = 0;
};

// Creates a file with the access of the file `like`, where there is one and `files` can do that.
Result<std::unique_ptr<File>> create_like(FileSystem& files, const std::string& path,
                                          const std::string& like, bool keeps_owner);

// The files of `inner`, where new ones get the access of the file `like`: of that which has their
// contents in another form, so that what is private stays so. Without such a file, or with an empty
// path, they are as those of `inner`. As thread-safe as `inner`, which must outlive it.
class FilesLike final : public FileSystem, public CreatesWithAccess {
 public:
  FilesLike(FileSystem& inner, std::string like) : inner_(inner), like_(std::move(like)) {}

  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    return inner_.open_read(path);
  }
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override {
    return inner_.open_read_write(path);
  }
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    return create_like(inner_, path, like_, false);
  }
  Result<std::unique_ptr<File>> create_with(const std::string& path, const Access& access,
                                            bool keeps_owner) override;
  Result<void> rename(const std::string& from, const std::string& to) override {
    return inner_.rename(from, to);
  }
  Result<void> exchange(const std::string& one, const std::string& other) override {
    return inner_.exchange(one, other);
  }
  Result<void> link(const std::string& from, const std::string& to) override {
    return inner_.link(from, to);
  }
  Result<void> make_directory(const std::string& path) override {
    return inner_.make_directory(path);
  }
  Result<void> remove(const std::string& path) override { return inner_.remove(path); }
  Result<void> sync_directory(const std::string& path) override {
    return inner_.sync_directory(path);
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  void remove_leftovers(const std::string& folder) noexcept override {
    inner_.remove_leftovers(folder);
  }

 private:
  FileSystem& inner_;
  const std::string like_;
};

}  // namespace cfck::detail
