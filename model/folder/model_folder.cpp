#include "model/folder/model_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/files/temporary_names.hpp"
#include "base/text.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/replace_folder.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/module_files.hpp"
#include "model/formats/foreign_formats.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFolderDepth = 16;

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
  std::vector<std::string> take_attribute_files() { return std::move(attribute_files_); }

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
      (is_attribute_file(name) ? attribute_files_ : files_).push_back(relative);
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
  std::vector<std::string> attribute_files_;  // of macOS
};

// Says what can be done about a folder without files of the formats that folders have, but with
// some of others, such as pytorch_model.bin; empty where it has none.
std::string single_files(const std::string& folder, std::vector<std::string> files) {
  constexpr std::size_t kMaxListed = 3;
  const auto formats = file_formats();
  std::erase_if(files, [&](const std::string& file) {
    return std::none_of(formats.begin(), formats.end(),
                        [&](const ArchiveFormat* format) { return has_suffix_of(file, *format); });
  });
  if (files.empty()) return {};
  std::sort(files.begin(), files.end());
  std::string text = ". Files of other formats are read and converted one by one: ";
  for (std::size_t i = 0; i < std::min(files.size(), kMaxListed); ++i) {
    text.append(i == 0 ? "'" : ", '").append(escaped(folder + "/" + files[i])).append("'");
  }
  return files.size() > kMaxListed ? text + ", ..." : text;
}

// Returns the format whose files in the folder are the model: of the formats of which any file
// counts the last one of formats.inc, which is not encoded yet. Nullptr where there are no files of
// tensors that a folder may have.
const ArchiveFormat* format_in(const std::vector<std::string>& files) {
  const auto has_model = [&](const ArchiveFormat* format) {
    return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      const std::string_view name = std::string_view(file).substr(file.rfind('/') + 1);
      return may_be_model(name, *format);
    });
  };
  const auto formats = archive_formats();
  const auto found = std::find_if(formats.rbegin(), formats.rend(), has_model);
  if (found != formats.rend()) return *found;
  const auto others = model_formats();
  const auto other = std::find_if(others.begin(), others.end(), has_model);
  if (other != others.end()) return *other;
  // Files without such names may be checkpoints, each by itself.
  const auto any = std::find_if(others.begin(), others.end(), [&](const ArchiveFormat* format) {
    return std::any_of(files.begin(), files.end(),
                       [&](const std::string& file) { return has_suffix_of(file, *format); });
  });
  return any == others.end() ? nullptr : *any;
}

// Returns the paths of the files that the index names, relative to the folder in which it is read.
// An index that cannot be read names none: who needs it says what is wrong with it.
std::set<std::string> named_files(const std::string& folder, const std::string& index_file) {
  std::set<std::string> named;
  const auto text = read_text(folder + "/" + index_file, kMaxIndexBytes);
  if (!text) return named;
  const auto index = parse_shard_index(*text);
  if (!index) return named;
  for (const std::string& file : index->files()) {
    named.insert((fs::path(index_file).parent_path() / file).string());
  }
  return named;
}

}  // namespace

Error no_tensor_files(const std::string& folder, const std::vector<std::string>& files,
                      bool backwards) {
  if (auto foreign = foreign_folder(folder, files)) return std::move(*foreign);
  if (auto below = models_below(folder)) return std::move(*below);
  return not_found("the folder '" + escaped(folder) + "' has " + no_such_files(backwards) +
                   single_files(folder, files));
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

Result<void> open_unchanged(const std::string& path, const std::function<Result<void>()>& open,
                            const std::function<bool()>& is_in_place) {
  constexpr int kMaxAttempts = 5;
  const fs::path index(path);
  const std::string folder = index.has_parent_path() ? index.parent_path().string() : ".";
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const FolderWatch watch =
        path.ends_with(".json") ? FolderWatch(folder, index.filename()) : FolderWatch(path);
    Result<void> opened = open();
    if (!opened) {
      if (!watch.changed()) return opened;
      continue;
    }
    Result<void> unchanged = watch.check();
    const bool was_replaced = !unchanged && unchanged.error().code == ErrorCode::kIo;
    if (unchanged && is_in_place && !is_in_place()) continue;
    if (unchanged || !(was_replaced || watch.changed())) return unchanged;
  }
  return io_error("'" + escaped(path) + "' was replaced repeatedly while it was read; try again");
}

Result<FolderContents> read_folder(const std::string& folder) {
  CFCK_TRY(check_unmarked(folder));
  FolderWalk walk(folder);
  CFCK_TRY(walk.walk("", 0));
  const std::vector<std::string> files = walk.take_files();
  FolderContents contents;
  contents.folder = folder;
  // They stay as they are, unless there is nothing else.
  std::set<std::string> of_modules = module_files(folder, files);
  std::vector<std::string> others = files;
  std::erase_if(others, [&](const std::string& file) { return of_modules.contains(file); });
  contents.format = format_in(others);
  if (contents.format == nullptr) {
    of_modules.clear();
    contents.format = format_in(files);
  }
  if (contents.format == nullptr) return no_tensor_files(folder, files, true);
  contents.attribute_files = walk.take_attribute_files();
  std::set<std::string> folders_with_index;
  for (const std::string& file : files) {
    if (!is_index_name(file, *contents.format)) continue;
    contents.index_files.push_back(file);
    folders_with_index.insert(fs::path(file).parent_path().string());
    contents.named_files.merge(named_files(folder, file));
  }
  for (const std::string& file : files) {
    const fs::path path(file);
    const std::string name = path.filename().string();
    const bool is_tensor_file =
        may_be_model(name, *contents.format) || contents.named_files.contains(file);
    if (is_tensor_file && !of_modules.contains(file)) {
      contents.tensor_files.push_back(file);
      if (!contents.named_files.contains(file) && may_be_shard(name, *contents.format) &&
          folders_with_index.contains(path.parent_path().string())) {
        contents.unnamed_shards.push_back(file);
      }
    } else if (!is_index_name(file, *contents.format)) {
      contents.other_files.push_back(file);
      if (walk.comes_from_outside(file)) contents.outside_files.push_back(file);
    }
  }
  return contents;
}

}  // namespace cfck::model
