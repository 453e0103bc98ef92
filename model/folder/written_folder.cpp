#include "model/folder/written_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/replace_folder.hpp"
#include "model/folder/shard_index.hpp"

namespace cfck::model {

namespace fs = std::filesystem;

Result<std::string> real_folder(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  fs::path real = error ? absolute : fs::weakly_canonical(absolute, error);
  if (!real.has_filename()) real = real.parent_path();  // of a path that ends in a slash
  if (!error) return real.string();
  const bool no_memory = error == std::errc::not_enough_memory;
  return Error{no_memory ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
               "cannot use the output folder '" + escaped(path) + "': " + error.message(),
               {},
               {}};
}

bool must_stay(const std::string& path) {
  const fs::path outer(path);
  std::error_code error;
  const auto lies_within = [&](const fs::path& inner) {
    return !inner.empty() &&
           std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first ==
               outer.end();
  };
  if (lies_within(fs::current_path(error))) return true;
  const char* const home = std::getenv("HOME");
  return path == "/" ||
         (home != nullptr && *home != '\0' && lies_within(fs::canonical(home, error)));
}

std::string temporary_place(const std::string& path) {
  std::error_code ignored;
  const bool stays = fs::is_directory(path, ignored) && must_stay(path);
  return stays ? (fs::path(path) / "new").string() : path;
}

Result<bool> is_taken(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  if (!S_ISDIR(info.st_mode)) return true;
  CFCK_TRY_ASSIGN(const auto names, names_in(path));
  return !names.empty();
}

Result<void> check_what_stays(const std::string& path, const WrittenFolder& written) {
  std::map<std::string, std::set<std::string>> names_by_folder;
  std::set<std::string> has_index;
  for (const std::string& name : written.tensor_files) {
    const fs::path file(name);
    names_by_folder[file.parent_path().string()].insert(file.filename().string());
  }
  for (const std::string& name : written.index_files) {
    const fs::path file(name);
    has_index.insert(file.parent_path().string());
    names_by_folder[file.parent_path().string()].insert(file.filename().string());
  }
  for (const auto& [folder, names] : names_by_folder) {
    const fs::path place = fs::path(path) / folder;
    const auto present = names_in(place.string());
    if (!present) continue;  // not there yet
    for (const std::string& name : *present) {
      if (is_attribute_file(name)) continue;
      const bool is_index = is_index_name(name, *written.format);
      const bool is_shard = name.ends_with(written.format->suffix) && !has_index.contains(folder);
      if (names.contains(name) || (!is_index && !is_shard)) continue;
      return invalid_argument("'" + escaped((place / name).string()) +
                              "' belongs to another checkpoint and would be read with the new "
                              "files; remove it, or choose another output folder");
    }
  }
  return {};
}

Result<void> put_in_place(const std::string& from, const std::string& path,
                          const WrittenFolder& written, FileSystem& files) {
  // The index comes last, so that it never names a shard that is not there.
  std::vector<std::string> names = written.other_files;
  for (const auto* more : {&written.tensor_files, &written.index_files}) {
    names.insert(names.end(), more->begin(), more->end());
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && (written.stays || must_stay(path))) {
    return add_to_folder({from, path, std::move(names), written.dropped}, files);
  }
  if (written.replaces) {
    return replace_folder({from, path, std::move(names), written.dropped}, files);
  }
  CFCK_TRY(sync_tree(from, files));
  // mkdir of the temporary folder gave it the usual permissions.
  CFCK_TRY(files.rename(from, path));
  Result<void> synced = files.sync_directory(fs::path(path).parent_path().string());
  if (!synced) {
    Error error = std::move(synced).error();
    error.message = "'" + escaped(path) + "' was written, but: " + error.message;
    return error;
  }
  return {};
}

}  // namespace cfck::model
