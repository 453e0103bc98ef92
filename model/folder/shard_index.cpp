#include "model/folder/shard_index.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/json_tree.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"
#include "model/error_path.hpp"

namespace cfck::model {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Tree = JsonTree<OrderedJson>;

constexpr std::size_t kShardDigits = 5;

Error corrupt_index(const std::string& what) {
  return {ErrorCode::kCorrupt, "the shard index " + what, {}, {}};
}

// Names come from untrusted files: they must not lead out of the folder, on any system.
bool stays_inside(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string shown(const OrderedJson& value) {
  return value.is_string() ? "'" + escaped(value.get<std::string>()) + "'" : escaped(value.dump());
}

Result<Tree> parse_index_json(std::string_view text, std::size_t max_values) {
  Result<Tree> tree = Tree::parse(text, {max_values});
  if (!tree) {
    return Error{tree.error().code, "the shard index " + tree.error().message, {}, {}};
  }
  OrderedJson& json = tree->root();
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return corrupt_index("needs an object \"weight_map\"");
  }
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !stays_inside(file.get<std::string>())) {
      return corrupt_index("names a file outside its folder, or none, for the tensor '" +
                           escaped(tensor) + "': " + shown(file) + " is not a file of this folder")
          .in_record(tensor);
    }
  }
  return tree;
}

// Returns the variant that `rest`, the name of an index behind the suffix of its format, has before
// or behind ".index": "" of ".index.json"; nullopt if this is no name of an index.
std::optional<std::string_view> variant_of(std::string_view rest) {
  constexpr std::string_view kIndex = ".index";
  constexpr std::string_view kEnd = ".json";
  if (!rest.ends_with(kEnd)) return std::nullopt;
  rest.remove_suffix(kEnd.size());
  if (rest == kIndex) return rest.substr(rest.size());
  if (rest.starts_with(kIndex)) {
    rest.remove_prefix(kIndex.size());
  } else if (rest.ends_with(kIndex)) {
    rest.remove_suffix(kIndex.size());
  } else {
    return std::nullopt;
  }
  const bool is_one_part = rest.size() > 1 && rest.rfind('.') == 0;
  return is_one_part ? std::optional(rest.substr(1)) : std::nullopt;
}

// The place of a suffix of files in the name of an index.
struct SuffixPlace {
  std::size_t at = std::string_view::npos;
  std::size_t n_bytes = 0;
};

// Returns where the last suffix of `format` is that is followed by another one.
SuffixPlace suffix_place(std::string_view name, const ArchiveFormat& format) {
  SuffixPlace last;
  const auto look_for = [&](std::string_view suffix) {
    const std::size_t at = name.rfind(std::string(suffix) + ".");
    if (at == name.npos || (last.at != name.npos && at < last.at)) return;
    last = {at, suffix.size()};
  };
  look_for(format.suffix);
  for (const std::string_view suffix : format.other_suffixes) look_for(suffix);
  return last;
}

// transformers calls one model pytorch_model.bin and model.safetensors.
void rename_stem(std::string& path, const ArchiveFormat& from) {
  constexpr std::string_view kOfTorch = "pytorch_model";
  const std::size_t at = path.rfind('/') + 1;
  const std::string_view name = std::string_view(path).substr(at);
  if (&from != &pytorch_format() || !name.starts_with(kOfTorch)) return;
  const std::string_view rest = name.substr(kOfTorch.size());
  if (rest.starts_with('.') || rest.starts_with('-')) path.replace(at, kOfTorch.size(), "model");
}

}  // namespace

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  return {names.begin(), names.end()};
}

bool is_index_name(std::string_view name, const ArchiveFormat& format) {
  name = name.substr(name.rfind('/') + 1);
  const SuffixPlace place = suffix_place(name, format);
  if (place.at == name.npos || place.at == 0) return false;
  return variant_of(name.substr(place.at + place.n_bytes)).has_value();
}

std::optional<IndexName> parse_index_name(std::string_view name) {
  std::optional<IndexName> parsed;
  const auto parse_as = [&](const ArchiveFormat& format) {
    if (!is_index_name(name, format)) return;
    const SuffixPlace place = suffix_place(name, format);
    // Of two suffixes the last one is that of the shards.
    if (parsed && parsed->stem.size() > place.at) return;
    parsed = {name.substr(0, place.at), &format,
              *variant_of(name.substr(place.at + place.n_bytes))};
  };
  for (const ArchiveFormat* format : archive_formats()) parse_as(*format);
  for (const ArchiveFormat* format : model_formats()) parse_as(*format);
  return parsed;
}

std::string renamed_index(std::string_view name, const ArchiveFormat& from,
                          const ArchiveFormat& to) {
  std::string renamed(name);
  const SuffixPlace place = suffix_place(name, from);
  renamed.replace(place.at, place.n_bytes, to.suffix);
  rename_stem(renamed, from);
  return renamed;
}

std::string renamed_file(const std::string& path, const ArchiveFormat& from,
                         const ArchiveFormat& to) {
  std::string renamed = with_suffix(path, from, to);
  rename_stem(renamed, from);
  return renamed;
}

std::string make_shard_index(const std::map<std::string, std::string>& weight_map,
                             std::uint64_t total_bytes) {
  // A tree that is built by assignment is left invalid where memory ends.
  const auto quoted = [](const std::string& text) { return OrderedJson(text).dump(); };
  std::string text = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total_bytes) +
                     "\n  },\n  \"weight_map\": {";
  bool is_first = true;
  for (const auto& [tensor, file] : weight_map) {
    text += is_first ? "\n    " : ",\n    ";
    text.append(quoted(tensor)).append(": ").append(quoted(file));
    is_first = false;
  }
  return text + (is_first ? "}\n}\n" : "\n  }\n}\n");
}

std::string index_name(std::string_view stem, const ArchiveFormat& format) {
  return std::string(stem).append(format.suffix).append(".index.json");
}

std::string shard_name(std::string_view stem, std::size_t number, std::size_t n_shards,
                       const ArchiveFormat& format) {
  const auto five_digits = [](std::size_t value) {
    const std::string digits = std::to_string(value);
    return std::string(kShardDigits - std::min(kShardDigits, digits.size()), '0') + digits;
  };
  std::string name(stem);
  if (n_shards > 1) name += "-" + five_digits(number) + "-of-" + five_digits(n_shards);
  return name.append(format.suffix);
}

bool is_shard_name(std::string_view name, const ArchiveFormat& format) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd";
  const std::string_view suffix = suffix_of(name, format);
  if (suffix.empty()) return false;
  name.remove_suffix(suffix.size());
  const auto ends_as_shard = [&](std::string_view stem) {
    if (stem.size() < kPattern.size()) return false;
    stem.remove_prefix(stem.size() - kPattern.size());
    return std::equal(stem.begin(), stem.end(), kPattern.begin(), [](char is, char wanted) {
      return wanted == 'd' ? is >= '0' && is <= '9' : is == wanted;
    });
  };
  const std::size_t dot = name.rfind('.');
  const bool has_variant = dot != std::string_view::npos && dot + 1 < name.size();
  return ends_as_shard(name) || (has_variant && ends_as_shard(name.substr(0, dot)));
}

Result<ShardIndex> parse_shard_index(std::string_view json, std::size_t max_values) {
  CFCK_TRY_ASSIGN(const Tree tree, parse_index_json(json, max_values));
  ShardIndex index;
  for (const auto& [tensor, file] : tree.root()["weight_map"].items()) {
    index.weight_map.emplace(tensor, file.get<std::string>());
  }
  return index;
}

Result<WeightMap> read_weight_map(const std::string& path, std::optional<std::uint64_t> max_bytes) {
  // An entry of an index has 32 bytes or more, so that bytes bound the values.
  constexpr std::uint64_t kBytesOfValue = kMaxIndexBytes / kMaxIndexValues;
  const std::uint64_t limit_bytes = max_bytes.value_or(kMaxIndexBytes);
  CFCK_TRY_ASSIGN(const auto source, open_file(path));
  if (source->size() > limit_bytes) {
    return limit_exceeded(escaped(path) + " has " + std::to_string(source->size()) +
                          " bytes, more than the " + std::to_string(limit_bytes) +
                          " allowed; raise the limit max_index_bytes to read it");
  }
  std::string text(source->size(), '\0');
  CFCK_TRY(source->read_at(0, std::as_writable_bytes(std::span(text))));
  const auto tree =
      parse_index_json(text, std::max<std::uint64_t>(kMaxIndexValues, limit_bytes / kBytesOfValue));
  if (!tree) return with_path(tree.error(), path);
  WeightMap weight_map;
  for (const auto& [tensor, file] : tree->root()["weight_map"].items()) {
    weight_map.emplace_back(tensor, file.get<std::string>());
  }
  return weight_map;
}

Result<std::string> rename_shards(std::string_view json, const ArchiveFormat& from,
                                  const ArchiveFormat& to, const WeightMap& left_out) {
  CFCK_TRY_ASSIGN(Tree tree, parse_index_json(json, kMaxIndexValues));
  OrderedJson& weight_map = tree.root()["weight_map"];
  for (const auto& [tensor, file] : left_out) {
    const auto found = weight_map.find(tensor);
    if (found != weight_map.end() && *found == file) weight_map.erase(found);
  }
  for (auto& file : weight_map) {
    file = renamed_file(file.get<std::string>(), from, to);
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
