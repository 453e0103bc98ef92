#include "model/folder/shard_index.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/json_tree.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Tree = JsonTree<Json>;

Error corrupt_index(const std::string& what) {
  return {ErrorCode::kCorrupt, "the shard index " + what, {}, {}};
}

// Names come from untrusted files: they must not lead out of the folder.
bool stays_inside(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string::npos) return false;
  const fs::path path(name);
  return std::none_of(path.begin(), path.end(),
                      [](const fs::path& part) { return part == ".." || part.empty(); });
}

Result<Tree> parse_index_json(std::string_view text, std::size_t max_values) {
  Result<Tree> tree = Tree::parse(text, {max_values});
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

// Returns where the suffix of `format` begins that is followed by another one.
std::size_t suffix_place(std::string_view name, const ArchiveFormat& format) {
  return name.rfind(std::string(format.suffix) + ".");
}

}  // namespace

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  return {names.begin(), names.end()};
}

bool is_index_name(std::string_view name, const ArchiveFormat& format) {
  name = name.substr(name.rfind('/') + 1);
  const std::size_t at = suffix_place(name, format);
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view rest = name.substr(at + format.suffix.size());
  // ".index.json", around which one part may stand for a variant.
  if (rest == ".index.json") return true;
  const bool early = rest.ends_with(".index.json");
  const bool late = rest.starts_with(".index.") && rest.ends_with(".json");
  const std::size_t n_dots = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '.'));
  return (early || late) && n_dots == 3 && rest.find("..") == std::string_view::npos;
}

std::string renamed_index(std::string_view name, const ArchiveFormat& from,
                          const ArchiveFormat& to) {
  std::string renamed(name);
  return renamed.replace(suffix_place(name, from), from.suffix.size(), to.suffix);
}

Result<ShardIndex> parse_shard_index(std::string_view json, std::size_t max_values) {
  CFCK_TRY_ASSIGN(const Tree tree, parse_index_json(json, max_values));
  ShardIndex index;
  for (const auto& [tensor, file] : tree.root()["weight_map"].items()) {
    index.weight_map.emplace(tensor, file.get<std::string>());
  }
  return index;
}

Result<std::string> rename_shards(std::string_view json, const ArchiveFormat& from,
                                  const ArchiveFormat& to, const std::set<std::string>& left_out) {
  CFCK_TRY_ASSIGN(Tree tree, parse_index_json(json, kMaxIndexValues));
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

}  // namespace cfck::model
