#include "model/folder/files/replace_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/xattr.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "model/folder/files/folder_names.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarkText =
    "The files of this folder are being replaced by cfck, with --force. If it is not running any "
    "more,\nit was interrupted, and the folder has files of two checkpoints: run it again.\n";

// An error that rules out the exchange; files are then renamed one by one.
Error impossible(const std::string& why) { return {ErrorCode::kUnsupported, why, {}, {}}; }

fs::file_status status_of(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored);
}

// True for access lists and other attributes that a new folder does not inherit. Labels of the
// system's security modules come with every folder.
bool has_attributes(const std::string& path) {
#if defined(__linux__)
  std::array<char, 4096> names;
  const ssize_t n_bytes = ::llistxattr(path.c_str(), names.data(), names.size());
  if (n_bytes < 0) return errno == ERANGE;
  std::string_view rest(names.data(), static_cast<std::size_t>(n_bytes));
  while (!rest.empty()) {
    if (!rest.starts_with("security.")) return true;
    rest.remove_prefix(std::min(rest.find('\0'), rest.size() - 1) + 1);
  }
#else
  (void)path;
#endif
  return false;
}

Result<void> copy_ownership(const std::string& from, const std::string& to) {
  struct stat old_info {};
  struct stat new_info {};
  if (::stat(from.c_str(), &old_info) != 0 || ::stat(to.c_str(), &new_info) != 0) {
    return impossible("the owner of a folder cannot be determined");
  }
  const bool same = old_info.st_uid == new_info.st_uid && old_info.st_gid == new_info.st_gid;
  if (!same && ::chown(to.c_str(), old_info.st_uid, old_info.st_gid) != 0) {
    return impossible("the folder's owner cannot be kept");
  }
  if (has_attributes(from)) return impossible("the folder has attributes");
  const mode_t mode = old_info.st_mode & 07777;
  if (mode != (new_info.st_mode & 07777) && ::chmod(to.c_str(), mode) != 0) {
    return impossible("the folder's permissions cannot be kept");
  }
  return {};
}

using Names = std::set<std::string>;

// The inodes of the files that stay, by their paths in the new folder.
using CarriedFiles = std::map<std::string, ino_t>;

// Returns 0 if there is no such file.
ino_t inode_of(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// Links the files of the old folder that stay into the new one.
Result<void> carry_over(const std::string& old_folder, const std::string& new_folder,
                        const Names& dropped, FileSystem& files, CarriedFiles& carried) {
  CFCK_TRY_ASSIGN(const auto names, names_in(old_folder));
  for (const std::string& name : names) {
    const std::string from = old_folder + "/" + name;
    const std::string to = new_folder + "/" + name;
    const fs::file_status old_status = status_of(from);
    const fs::file_status new_status = status_of(to);
    if (name == kUnfinishedMark || dropped.contains(name)) continue;
    if (!fs::is_directory(old_status)) {
      if (!fs::exists(new_status)) {
        CFCK_TRY(files.link(from, to));
        carried[to] = inode_of(to);
      }
      // A link to a folder is followed: the new files go where it leads.
      if (fs::is_directory(new_status)) return impossible("a folder takes the place of a file");
      continue;
    }
    if (!fs::exists(new_status)) CFCK_TRY(files.make_directory(to));
    if (fs::exists(new_status) && !fs::is_directory(new_status)) {
      return Error{ErrorCode::kInvalidArgument,
                   "'" + escaped(from) + "' is a folder, but a file of this name is to be written",
                   {},
                   {}};
    }
    CFCK_TRY(carry_over(from, to, {}, files, carried));
  }
  return copy_ownership(old_folder, new_folder);
}

// True if a file that stays was saved again in the old folder, and not since in the new one. The
// exchange made `from` the path that was carried to.
bool replaced_late(const std::string& from, const std::string& to, const CarriedFiles& carried) {
  const auto known = carried.find(from);
  return known != carried.end() && inode_of(from) != known->second && inode_of(to) == known->second;
}

// Saves what others put into the old folder after carry_over().
Result<void> rescue(const std::string& old_folder, const std::string& new_folder,
                    const Names& dropped, FileSystem& files, const CarriedFiles& carried) {
  CFCK_TRY_ASSIGN(const auto names, names_in(old_folder));
  for (const std::string& name : names) {
    const std::string from = old_folder + "/" + name;
    const std::string to = new_folder + "/" + name;
    if (name == kUnfinishedMark || dropped.contains(name)) continue;
    if (!fs::exists(status_of(to)) || replaced_late(from, to, carried)) {
      CFCK_TRY(files.rename(from, to));
    } else if (fs::is_directory(status_of(from)) && fs::is_directory(status_of(to))) {
      CFCK_TRY(rescue(from, to, {}, files, carried));
    }
  }
  return {};
}

Error replaced_but(const std::string& folder, Error error) {
  error.message = "the folder '" + escaped(folder) + "' was replaced, but: " + error.message;
  error.code = ErrorCode::kIo;
  return error;
}

Result<void> exchange(const FolderReplacement& replacement, FileSystem& files) {
  const std::string parent = fs::path(replacement.to).parent_path().string();
  const Names dropped(replacement.dropped.begin(), replacement.dropped.end());
  CarriedFiles carried;
  CFCK_TRY(carry_over(replacement.to, replacement.from, dropped, files, carried));
  CFCK_TRY(sync_tree(replacement.from, files));
  CFCK_TRY(files.exchange(replacement.from, replacement.to));
  Result<void> ended = rescue(replacement.from, replacement.to, dropped, files, carried);
  if (ended) ended = files.sync_directory(parent);
  if (!ended) return replaced_but(replacement.to, std::move(ended).error());
  return {};
}

Result<void> put_mark(const std::string& path, FileSystem& files) {
  if (files.exists(path)) return {};
  CFCK_TRY_ASSIGN(const auto file, files.create_exclusive(path));
  CFCK_TRY(file->write_at(0, std::as_bytes(std::span(kMarkText))));
  CFCK_TRY(file->sync());
  return file->close();
}

// Folders that must be synced because entries of them change.
using Folders = std::set<std::string>;

Result<void> make_parents(const std::string& folder, Folders& changed, FileSystem& files) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return {};
  const std::string parent = fs::path(folder).parent_path().string();
  CFCK_TRY(make_parents(parent, changed, files));
  CFCK_TRY(files.make_directory(folder));
  changed.insert(parent);
  return {};
}

Result<void> rename_all(const FolderReplacement& replacement, FileSystem& files,
                        std::size_t& n_renamed) {
  Folders changed;
  for (const std::string& name : replacement.names) {
    const std::string target = replacement.to + "/" + name;
    const std::string folder = fs::path(target).parent_path().string();
    CFCK_TRY(make_parents(folder, changed, files));
    CFCK_TRY(files.rename(replacement.from + "/" + name, target));
    ++n_renamed;
    changed.insert(folder);
  }
  for (const std::string& name : replacement.dropped) {
    CFCK_TRY(files.remove(replacement.to + "/" + name));
  }
  for (const std::string& folder : changed) CFCK_TRY(files.sync_directory(folder));
  return {};
}

Result<void> rename_under_mark(const FolderReplacement& replacement, FileSystem& files) {
  const std::string mark = replacement.to + "/" + kUnfinishedMark;
  const bool was_marked = files.exists(mark);
  Result<void> marked = put_mark(mark, files);
  if (marked) marked = files.sync_directory(replacement.to);
  std::size_t n_renamed = 0;
  Result<void> renamed = marked ? rename_all(replacement, files, n_renamed) : marked;
  if (!renamed && n_renamed == 0) {
    if (!was_marked) (void)files.remove(mark);
    return renamed;
  }
  if (!renamed) {
    Error error = std::move(renamed).error();
    error.message += "; the folder '" + escaped(replacement.to) +
                     "' has files of two checkpoints now and is not read until the same "
                     "command with --force succeeds";
    return error;
  }
  Result<void> ended = files.remove(mark);
  if (!ended) {
    Error error = replaced_but(replacement.to, std::move(ended).error());
    error.message += "; remove '" + escaped(mark) + "', or the folder is not read";
    return error;
  }
  ended = files.sync_directory(replacement.to);
  if (!ended) return replaced_but(replacement.to, std::move(ended).error());
  return {};
}

// Links the files, so that a file that somebody else wrote meanwhile is not replaced. Takes back
// what it did after an error.
Result<void> link_all(const FolderReplacement& replacement, FileSystem& files) {
  Folders changed;
  std::vector<std::string> made;
  const auto add = [&](const std::string& name) -> Result<void> {
    const std::string source = replacement.from + "/" + name;
    const std::string target = replacement.to + "/" + name;
    const std::string folder = fs::path(target).parent_path().string();
    CFCK_TRY(make_parents(folder, changed, files));
    Result<void> linked = files.link(source, target);
    if (!linked && linked.error().code == ErrorCode::kUnsupported) {
      linked = files.rename(source, target);
    }
    CFCK_TRY(linked);
    made.push_back(target);
    changed.insert(folder);
    return {};
  };
  Result<void> added;
  for (const std::string& name : replacement.names) {
    added = add(name);
    if (!added) break;
  }
  if (added) {
    for (const std::string& folder : changed) CFCK_TRY(files.sync_directory(folder));
    return {};
  }
  for (const std::string& target : made) (void)files.remove(target);
  return added;
}

}  // namespace

Result<void> check_unmarked(const std::string& folder) {
  if (!fs::exists(status_of(folder + "/" + kUnfinishedMark))) return {};
  return Error{ErrorCode::kCorrupt,
               "the folder '" + escaped(folder) +
                   "' may have files of two checkpoints: cfck is replacing them, or was "
                   "interrupted. Wait for it, or run the same command with --force again "
                   "(the mark is '" +
                   kUnfinishedMark + "')",
               {},
               {}};
}

Result<void> sync_tree(const std::string& folder, FileSystem& files) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (fs::is_directory(status_of(path))) CFCK_TRY(sync_tree(path, files));
  }
  return files.sync_directory(folder);
}

Result<void> replace_folder(const FolderReplacement& replacement, FileSystem& files) {
  files.remove_leftovers(replacement.to);
  Result<void> exchanged = exchange(replacement, files);
  if (exchanged || exchanged.error().code != ErrorCode::kUnsupported) return exchanged;
  return rename_under_mark(replacement, files);
}

Result<void> add_to_folder(const FolderReplacement& replacement, FileSystem& files) {
  bool replaces =
      !replacement.dropped.empty() || files.exists(replacement.to + "/" + kUnfinishedMark);
  for (const std::string& name : replacement.names) {
    const std::string target = replacement.to + "/" + name;
    if (fs::is_directory(status_of(target))) {
      return invalid_argument("'" + escaped(target) +
                              "' is a folder, but a file of this name is to be written");
    }
    replaces = replaces || fs::exists(status_of(target));
  }
  CFCK_TRY(sync_tree(replacement.from, files));
  return replaces ? rename_under_mark(replacement, files) : link_all(replacement, files);
}

}  // namespace cfck::model
