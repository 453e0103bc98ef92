#include "model/folder/model_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/files/temporary_names.hpp"
#include "base/text.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/folder_names.hpp"
#include "model/folder/replace_folder.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFolderDepth = 16;

bool has_suffix(const std::string& name, const ArchiveFormat& format) {
  return name.ends_with(format.suffix);
}

bool lies_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

class FolderWalk {
 public:
  explicit FolderWalk(std::string root) : root_(std::move(root)) {
    std::error_code ignored;
    const fs::path real = fs::canonical(root_, ignored);
    homes_ = {real};
    // Caches of huggingface_hub have this layout: MODEL/snapshots/REVISION and MODEL/blobs.
    if (real.parent_path().filename() == "snapshots") {
      homes_.push_back(real.parent_path().parent_path() / "blobs");
    }
  }

  Result<void> walk(const std::string& relative, int depth) {
    const std::string here = relative.empty() ? root_ : root_ + "/" + relative;
    std::error_code error;
    const fs::path real = fs::canonical(here, error);
    if (error) return system_problem(here, error);
    if (depth > kMaxFolderDepth || !open_.insert(real).second) {
      return Error{ErrorCode::kUnsupported,
                   "'" + escaped(here) + "' is nested too deeply, or its links form a cycle",
                   {},
                   {}};
    }
    CFCK_TRY_ASSIGN(const auto names, names_in(here));
    for (const std::string& name : names) {
      CFCK_TRY(visit(relative.empty() ? name : relative + "/" + name, name, depth));
    }
    open_.erase(real);
    return {};
  }

  std::vector<std::string> take_files() { return std::move(files_); }

  bool comes_from_outside(const std::string& file) const {
    std::error_code ignored;
    const fs::path real = fs::canonical(root_ + "/" + file, ignored);
    return std::none_of(homes_.begin(), homes_.end(),
                        [&](const fs::path& home) { return lies_within(real, home); });
  }

 private:
  static Error system_problem(const std::string& path, const std::error_code& error) {
    return {ErrorCode::kIo, "cannot read '" + escaped(path) + "': " + error.message(), {}, {}};
  }

  Result<void> visit(const std::string& relative, const std::string& name, int depth) {
    const std::string path = root_ + "/" + relative;
    if (is_temporary_name(name)) return {};
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) {
      return name.front() == '.' ? Result<void>() : walk(relative, depth + 1);
    }
    if (fs::is_regular_file(status)) {
      files_.push_back(relative);
      return {};
    }
    if (status.type() == fs::file_type::not_found) {
      return Error{ErrorCode::kNotFound, "'" + escaped(path) + "' is a broken link", {}, {}};
    }
    return Error{ErrorCode::kUnsupported, "'" + escaped(path) + "' is not a regular file", {}, {}};
  }

  std::string root_;
  std::vector<fs::path> homes_;  // folders into which links may lead
  std::set<fs::path> open_;      // folders on the path from the root of the walk
  std::vector<std::string> files_;
};

// Returns the paths of the shards that an index names.
Result<std::vector<std::string>> shards_of(const std::string& index) {
  CFCK_TRY_ASSIGN(const std::string text, read_text(index, kMaxIndexBytes));
  CFCK_TRY_ASSIGN(const ShardIndex shards, parse_shard_index(text));
  std::vector<std::string> files;
  for (const std::string& file : shards.files()) {
    files.push_back((fs::path(index).parent_path() / file).string());
  }
  return files;
}

// Says what can be done about a folder without files of the formats that folders have, but with
// some of others, such as pytorch_model.bin; empty where it has none.
std::string single_files(const std::string& folder, std::vector<std::string> files) {
  constexpr std::size_t kMaxNamed = 3;
  const auto formats = file_formats();
  std::erase_if(files, [&](const std::string& file) {
    return std::none_of(formats.begin(), formats.end(),
                        [&](const ArchiveFormat* format) { return has_suffix_of(file, *format); });
  });
  if (files.empty()) return {};
  std::sort(files.begin(), files.end());
  std::string text = ". Files of other formats are read and converted one by one: ";
  for (std::size_t i = 0; i < std::min(files.size(), kMaxNamed); ++i) {
    text.append(i == 0 ? "'" : ", '").append(escaped(folder + "/" + files[i])).append("'");
  }
  return files.size() > kMaxNamed ? text + ", ..." : text;
}

bool is_index(const std::string& path) {
  return parse_index_name(fs::path(path).filename().string()).has_value();
}

Result<std::vector<std::string>> files_of(const std::string& model) {
  return is_index(model) ? shards_of(model) : std::vector<std::string>{model};
}

// Returns all files of the folder with tensors, of the first format that has any.
Result<std::vector<std::string>> all_files(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  std::vector<std::string> files;
  for (const ArchiveFormat* format : archive_formats()) {
    for (const std::string& name : names) {
      if (has_suffix(name, *format)) files.push_back(folder + "/" + name);
    }
    if (!files.empty()) return files;
  }
  return not_found("the folder '" + escaped(folder) + "' has " + no_such_files() +
                   single_files(folder, names));
}

}  // namespace

Result<std::vector<std::string>> tensor_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return files_of(path);
  CFCK_TRY(check_unmarked(path));
  CFCK_TRY_ASSIGN(const auto model, find_named_model(path));
  return model ? files_of(*model) : all_files(path);
}

std::vector<FolderWatch::File> FolderWatch::state() const {
  std::vector<File> found;
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return found;
  found.emplace_back(info.st_dev, info.st_ino);
  const auto names = names_in(path_);
  if (!names) return found;
  for (const std::string& name : *names) {
    const bool is_index = name == index_ || parse_index_name(name);
    if (is_index && ::stat((path_ + "/" + name).c_str(), &info) == 0) {
      found.emplace_back(info.st_dev, info.st_ino);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<void> FolderWatch::check() const {
  if (before_.empty()) return {};
  CFCK_TRY(check_unmarked(path_));
  if (!changed()) return {};
  return Error{ErrorCode::kIo,
               "the folder '" + escaped(path_) + "' was replaced while it was read; try again",
               {},
               {}};
}

Result<FolderContents> read_folder(const std::string& folder) {
  CFCK_TRY(check_unmarked(folder));
  FolderWalk walk(folder);
  CFCK_TRY(walk.walk("", 0));
  const std::vector<std::string> files = walk.take_files();
  const auto formats = archive_formats();
  const auto found =
      std::find_if(formats.rbegin(), formats.rend(), [&](const ArchiveFormat* format) {
        return std::any_of(files.begin(), files.end(),
                           [&](const std::string& file) { return has_suffix(file, *format); });
      });
  if (found == formats.rend()) {
    return Error{ErrorCode::kNotFound,
                 "the folder '" + escaped(folder) + "' has " + no_such_files(true) +
                     single_files(folder, files),
                 {},
                 {}};
  }
  FolderContents contents;
  contents.folder = folder;
  contents.format = *found;
  for (const std::string& file : files) {
    if (has_suffix(file, *contents.format)) {
      contents.tensor_files.push_back(file);
    } else if (is_index_name(file, *contents.format)) {
      contents.index_files.push_back(file);
    } else {
      contents.other_files.push_back(file);
      if (walk.comes_from_outside(file)) contents.outside_files.push_back(file);
    }
  }
  return contents;
}

}  // namespace cfck::model
