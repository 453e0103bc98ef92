#include "model/model_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/file_locks.hpp"
#include "base/json_tree.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"
#include "model/folder_names.hpp"
#include "model/replace_folder.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using JsonTree = format::JsonTree<Json>;

constexpr int kMaxFolderDepth = 16;

Error corrupt_index(const std::string& what) {
  return {ErrorCode::kCorrupt, "the shard index " + what, {}, {}};
}

// Names come from strangers: they must not lead out of the folder.
bool stays_inside(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string::npos) return false;
  const fs::path path(name);
  return std::none_of(path.begin(), path.end(),
                      [](const fs::path& part) { return part == ".." || part.empty(); });
}

Result<JsonTree> parse_index_json(std::string_view text, std::size_t max_values) {
  Result<JsonTree> tree = JsonTree::parse(text, {max_values});
  if (!tree) {
    return Error{tree.error().code, "the shard index " + tree.error().message, {}, {}};
  }
  Json& json = tree->root();
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return corrupt_index("needs an object \"weight_map\"");
  }
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !stays_inside(file.get<std::string>())) {
      return corrupt_index("names a file outside its folder, or none, for the tensor '" +
                           escaped(tensor) + "': " + escaped(file.dump()));
    }
  }
  return tree;
}

// Where the suffix of `kind` begins that is followed by another one.
std::size_t suffix_place(std::string_view name, FileKind kind) {
  return name.rfind(std::string(suffix_of(kind)) + ".");
}

bool has_suffix(const std::string& name, FileKind kind) { return name.ends_with(suffix_of(kind)); }

bool lies_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

class FolderWalk {
 public:
  explicit FolderWalk(std::string root) : root_(std::move(root)) {
    std::error_code ignored;
    const fs::path real = fs::canonical(root_, ignored);
    homes_ = {real};
    // As caches of huggingface_hub have it: MODEL/snapshots/REVISION and MODEL/blobs.
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
                   "'" + escaped(here) + "' is nested too deep, or links lead in a circle",
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
      return Error{
          ErrorCode::kNotFound, "'" + escaped(path) + "' is a link that leads nowhere", {}, {}};
    }
    return Error{ErrorCode::kUnsupported, "'" + escaped(path) + "' is not a regular file", {}, {}};
  }

  std::string root_;
  std::vector<fs::path> homes_;  // where links may lead
  std::set<fs::path> open_;      // folders on the way to where the walk is
  std::vector<std::string> files_;
};

// Files with tensors in `folder` itself, by the index if there is one.
Result<std::vector<std::string>> files_of_kind(const std::string& folder, FileKind kind) {
  std::vector<std::string> indexes;
  std::vector<std::string> files;
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  for (const std::string& name : names) {
    if (is_index_name(name, kind)) indexes.push_back(name);
    if (has_suffix(name, kind)) files.push_back(name);
  }
  if (!indexes.empty()) {
    std::set<std::string> named;
    for (const std::string& index : indexes) {
      CFCK_TRY_ASSIGN(const std::string text, read_text(folder + "/" + index, kMaxIndexBytes));
      CFCK_TRY_ASSIGN(const ShardIndex shards, parse_shard_index(text));
      for (const std::string& file : shards.files()) named.insert(file);
    }
    files.assign(named.begin(), named.end());
  }
  std::sort(files.begin(), files.end());
  for (std::string& file : files) file = folder + "/" + file;
  return files;
}

}  // namespace

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  return {names.begin(), names.end()};
}

bool is_index_name(std::string_view name, FileKind kind) {
  name = name.substr(name.rfind('/') + 1);
  const std::size_t at = suffix_place(name, kind);
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view rest = name.substr(at + suffix_of(kind).size());
  // ".index.json", around which one part may stand for a variant.
  if (rest == ".index.json") return true;
  const bool early = rest.ends_with(".index.json");
  const bool late = rest.starts_with(".index.") && rest.ends_with(".json");
  const std::size_t n_dots = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '.'));
  return (early || late) && n_dots == 3 && rest.find("..") == std::string_view::npos;
}

std::string renamed_index(std::string_view name, FileKind from, FileKind to) {
  std::string renamed(name);
  return renamed.replace(suffix_place(name, from), suffix_of(from).size(), suffix_of(to));
}

Result<ShardIndex> parse_shard_index(std::string_view json, std::size_t max_values) {
  CFCK_TRY_ASSIGN(const JsonTree tree, parse_index_json(json, max_values));
  ShardIndex index;
  for (const auto& [tensor, file] : tree.root()["weight_map"].items()) {
    index.weight_map.emplace(tensor, file.get<std::string>());
  }
  return index;
}

Result<std::string> rename_shards(std::string_view json, FileKind from, FileKind to,
                                  const std::set<std::string>& left_out) {
  CFCK_TRY_ASSIGN(JsonTree tree, parse_index_json(json, kMaxIndexValues));
  Json& weight_map = tree.root()["weight_map"];
  for (const std::string& tensor : left_out) weight_map.erase(tensor);
  for (auto& file : weight_map) {
    file = with_suffix(file.get<std::string>(), from, to);
  }
  return tree.root().dump(2) + "\n";
}

Result<std::string> read_text(const std::string& path, std::size_t max_bytes) {
  CFCK_TRY_ASSIGN(const auto source, open_file(path));
  if (source->size() > max_bytes) {
    return Error{ErrorCode::kLimitExceeded,
                 "'" + escaped(path) + "' has " + std::to_string(source->size()) +
                     " bytes; at most " + std::to_string(max_bytes) + " are expected",
                 {},
                 {}};
  }
  std::string text(source->size(), '\0');
  CFCK_TRY(source->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<std::string>> tensor_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  CFCK_TRY(check_unmarked(path));
  for (const FileKind kind : {FileKind::kCfck, FileKind::kSafetensors}) {
    CFCK_TRY_ASSIGN(auto files, files_of_kind(path, kind));
    if (!files.empty()) return files;
  }
  return Error{ErrorCode::kNotFound,
               "the folder '" + escaped(path) + "' has no .cfck and no .safetensors files",
               {},
               {}};
}

std::vector<FolderWatch::File> FolderWatch::state() const {
  std::vector<File> found;
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return found;
  found.emplace_back(info.st_dev, info.st_ino);
  const auto names = names_in(path_);
  if (!names) return found;
  for (const std::string& name : *names) {
    const bool is_index =
        is_index_name(name, FileKind::kCfck) || is_index_name(name, FileKind::kSafetensors);
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
  if (state() == before_) return {};
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
  const auto any_of_kind = [&](FileKind kind) {
    return std::any_of(files.begin(), files.end(),
                       [&](const std::string& file) { return has_suffix(file, kind); });
  };
  FolderContents contents;
  contents.folder = folder;
  if (!any_of_kind(FileKind::kSafetensors)) {
    if (!any_of_kind(FileKind::kCfck)) {
      return Error{ErrorCode::kNotFound,
                   "the folder '" + escaped(folder) + "' has no .safetensors and no .cfck files",
                   {},
                   {}};
    }
    contents.kind = FileKind::kCfck;
  }
  for (const std::string& file : files) {
    if (has_suffix(file, contents.kind)) {
      contents.tensor_files.push_back(file);
    } else if (is_index_name(file, contents.kind)) {
      contents.index_files.push_back(file);
    } else {
      contents.other_files.push_back(file);
      if (walk.comes_from_outside(file)) contents.outside_files.push_back(file);
    }
  }
  return contents;
}

}  // namespace cfck::tools
