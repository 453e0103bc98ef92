#include "model/folder/model_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "model/error_path.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/replace_folder.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 3;

// By its name; a file of another name that ends in ".json" is one unless it has tensors.
bool is_index(const std::string& path) {
  if (parse_index_name(fs::path(path).filename().string())) return true;
  if (!path.ends_with(".json")) return false;
  const auto source = open_file(path);
  if (!source) return true;  // which says why
  const auto head = head_of(**source);
  return !head || recognised(*head) == nullptr;
}

// Returns "'a', 'b', 'c' and 4 more".
std::string some_of(std::span<const std::string> names) {
  std::string text;
  const std::size_t n_named = std::min(names.size(), kMaxNamed);
  for (std::size_t i = 0; i < n_named; ++i) {
    text.append(i == 0 ? "'" : ", '").append(escaped(names[i])).append("'");
  }
  if (names.size() == n_named) return text;
  return text + " and " + std::to_string(names.size() - n_named) + " more";
}

// Returns the names of shards that the indexes of the folder name, relative to it.
std::set<std::string> named_by_indexes(const fs::path& folder,
                                       const std::vector<std::string>& names,
                                       const ArchiveFormat& format) {
  std::set<std::string> named;
  for (const std::string& name : names) {
    if (!is_index_name(name, format) || name.starts_with('.')) continue;
    const auto map = read_weight_map((folder / name).string(), std::nullopt);
    if (!map) continue;  // it is another model's
    for (const auto& [tensor, file] : *map) named.insert(file);
  }
  return named;
}

// Finds what is beside the index and not read.
Result<void> add_unread(ModelFiles& files) {
  const fs::path folder = fs::path(files.index).parent_path();
  CFCK_TRY_ASSIGN(const auto names, names_in(folder.empty() ? "." : folder.string()));
  const auto parsed = parse_index_name(fs::path(files.index).filename().string());
  std::set<std::string> named;
  if (parsed) named = named_by_indexes(folder, names, *parsed->format);
  for (const std::string& name : names) {
    if (is_attribute_file(name)) files.attribute_files.push_back((folder / name).string());
    if (!parsed || named.contains(name) || !may_be_shard(name, *parsed->format)) continue;
    files.unnamed.push_back((folder / name).string());
  }
  return {};
}

Result<ModelFiles> files_of_index(const std::string& path, const FindOptions& options) {
  const fs::path folder = fs::path(path).parent_path();
  CFCK_TRY(check_unmarked(folder.empty() ? "." : folder.string()));
  CFCK_TRY_ASSIGN(const WeightMap index, read_weight_map(path, options.max_index_bytes));
  std::vector<std::string> shards;
  std::map<std::string, std::size_t> numbers;
  for (const auto& [tensor, file] : index) {
    if (numbers.emplace(file, shards.size()).second) shards.push_back(file);
  }
  if (!options.in_index_order) std::sort(shards.begin(), shards.end());
  ModelFiles files;
  files.index = path;
  for (const std::string& file : shards) {
    numbers[file] = files.paths.size();
    files.paths.push_back((folder / file).string());
    std::error_code error;
    if (fs::exists(files.paths.back(), error) || error) continue;
    return not_found("the shard '" + escaped(file) + "', named in '" + escaped(path) +
                     "', is missing; download it");
  }
  for (const auto& [tensor, file] : index) files.places.emplace(tensor, numbers.at(file));
  if (options.finds_unread) CFCK_TRY(add_unread(files));
  return files;
}

Result<ModelFiles> files_of(const std::string& model, const FindOptions& options) {
  if (is_index(model)) return files_of_index(model, options);
  ModelFiles files;
  files.paths.push_back(model);
  return files;
}

// The parts of the name of a shard: "model-00002-of-00003.fp16.safetensors".
struct ShardParts {
  std::string model;  // all but the number: what shards of one model have in common
  std::size_t number = 0;
  std::size_t n_shards = 0;
  std::size_t at = 0;  // where the number is in the name
};

ShardParts parse_shard_name(const std::string& name) {
  constexpr std::size_t kDigits = 5;
  ShardParts parts;
  const std::size_t of = name.rfind("-of-");
  parts.at = of - kDigits;
  parts.number = std::strtoull(name.c_str() + parts.at, nullptr, 10);
  parts.n_shards = std::strtoull(name.c_str() + of + 4, nullptr, 10);
  parts.model = std::string(name).replace(parts.at, kDigits, "*");
  return parts;
}

}  // namespace

// Shards that no index names are one model if they say so themselves.
Result<void> check_shards(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::vector<ShardParts>> models;
  for (const std::string& name : names) {
    ShardParts parts = parse_shard_name(name);
    models[parts.model].push_back(std::move(parts));
  }
  if (models.size() > 1) {
    std::vector<std::string> patterns;
    for (const auto& [pattern, shards] : models) patterns.push_back(pattern);
    return invalid_argument("the folder '" + escaped(folder) +
                            "' has shards of several models and no index of them: " +
                            some_of(patterns) + "; move each model to a folder of its own");
  }
  for (const auto& [pattern, shards] : models) {
    std::set<std::size_t> present;
    for (const ShardParts& shard : shards) present.insert(shard.number);
    for (std::size_t number = 1; number <= shards.front().n_shards; ++number) {
      if (present.contains(number)) continue;
      std::string digits = std::to_string(number);
      digits.insert(0, 5 - std::min<std::size_t>(5, digits.size()), '0');
      return not_found("the shard '" +
                       escaped(std::string(pattern).replace(shards.front().at, 1, digits)) +
                       "' is missing in '" + escaped(folder) + "'; download it");
    }
  }
  return {};
}

namespace {

// Returns all files of the folder with tensors, of the first format that has any. Errors: those of
// check_shards().
Result<ModelFiles> all_files(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  ModelFiles files;
  for (const ArchiveFormat* format : archive_formats()) {
    std::vector<std::string> shards;
    for (const std::string& name : names) {
      const bool is_file = !name.starts_with('.') && name.ends_with(format->suffix);
      if (is_file) files.paths.push_back(folder + "/" + name);
      if (is_file && is_shard_name(name, *format)) shards.push_back(name);
    }
    if (files.paths.empty()) continue;
    CFCK_TRY(check_shards(folder, shards));
    return files;
  }
  return no_tensor_files(folder, names);
}

}  // namespace

Result<ModelFiles> model_files(const std::string& path, const FindOptions& options) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return files_of(path, options);
  CFCK_TRY(check_unmarked(path));
  std::optional<std::string> model;
  if (options.joins_unnamed) {
    CFCK_TRY_ASSIGN(model, find_named_model(path));
  } else {
    CFCK_TRY_ASSIGN(model, find_model(path));
  }
  CFCK_TRY_ASSIGN(ModelFiles files, model ? files_of(*model, options) : all_files(path));
  if (!files.index.empty() || !options.finds_unread) return files;
  CFCK_TRY_ASSIGN(const auto names, names_in(path));
  for (const std::string& name : names) {
    if (is_attribute_file(name)) files.attribute_files.push_back((fs::path(path) / name).string());
  }
  return files;
}

Result<std::vector<bool>> tensors_of_model(const ModelFiles& files, std::size_t number,
                                           std::span<const ArchiveTensor> tensors) {
  std::vector<bool> is_of_model(tensors.size(), true);
  if (files.index.empty()) return is_of_model;
  std::set<std::string_view> present;
  std::vector<bool> has_member(tensors.size());  // by the base of what shares memory
  const auto base_of = [](const ArchiveTensor& tensor) {
    return tensor.sharing == Sharing::kMemory ? tensor.base : tensor.index;
  };
  for (const ArchiveTensor& tensor : tensors) {
    if (tensor.hidden) continue;
    const auto place = files.places.find(tensor.name);
    const bool is_here = place != files.places.end() && place->second == number;
    is_of_model[tensor.index] = is_here;
    if (!is_here) continue;
    present.insert(tensor.name);
    has_member[base_of(tensor)] = true;
  }
  for (const ArchiveTensor& tensor : tensors) {
    if (tensor.hidden || files.places.contains(tensor.name)) continue;
    is_of_model[tensor.index] = has_member[base_of(tensor)];
  }
  for (const auto& [name, place] : files.places) {
    if (place != number || present.contains(name)) continue;
    return corrupt("the shard '" + escaped(files.paths[number]) + "' lacks this tensor, which '" +
                   escaped(files.index) + "' places there; download the folder again")
        .in_record(name);
  }
  return is_of_model;
}

std::vector<StrayTensor> stray_tensors(const ModelFiles& files, std::size_t number,
                                       std::span<const ArchiveTensor> tensors,
                                       const std::vector<bool>& is_of_model) {
  std::vector<StrayTensor> strays;
  for (const ArchiveTensor& tensor : tensors) {
    // A name that only metadata have is no copy of a tensor.
    if (is_of_model[tensor.index] || tensor.named_by_metadata) continue;
    strays.push_back({files.paths[number], tensor.name});
  }
  return strays;
}

std::string attribute_files_text(std::span<const std::string> paths, std::string_view left_out) {
  if (paths.empty()) return {};
  const bool is_one = paths.size() == 1;
  return some_of(paths)
      .append(is_one ? ": a file in which macOS keeps attributes of another one; it was "
                     : ": files in which macOS keeps attributes of others; they were ")
      .append(left_out);
}

std::vector<std::string> unread_warnings(const ModelFiles& files,
                                         std::span<const StrayTensor> strays) {
  std::vector<std::string> warnings;
  if (!files.unnamed.empty()) {
    warnings.push_back(some_of(files.unnamed) +
                       (files.unnamed.size() == 1
                            ? ": no index names this shard, so it is not read as part of the model"
                            : ": no index names these shards, so they are not read as parts of "
                              "the model"));
  }
  std::map<std::string_view, std::vector<std::string>> names;
  for (const StrayTensor& stray : strays) names[stray.path].push_back(stray.name);
  for (const auto& [path, of_file] : names) {
    warnings.push_back(
        "'" + escaped(path) + "' also has " + (of_file.size() == 1 ? "a tensor" : "tensors") +
        " that '" + escaped(files.index) + "' does not take from it, so " +
        (of_file.size() == 1 ? "it is" : "they are") + " not read: " + some_of(of_file));
  }
  if (auto text = attribute_files_text(files.attribute_files, "not read"); !text.empty()) {
    warnings.push_back(std::move(text));
  }
  return warnings;
}

Result<void> check_no_index(const std::string& path) {
  const fs::path parsed(path);
  if (!parse_index_name(parsed.filename().string())) return {};
  const std::string folder = parsed.has_parent_path() ? parsed.parent_path().string() : ".";
  return unsupported("'" + escaped(path) + "' is the index of shards; give their folder, '" +
                     escaped(folder) + "', or one of them");
}

Result<void> check_all_named(const ModelFiles& files) {
  if (files.unnamed.empty()) return {};
  return corrupt("the folder has shards that no index names: " + some_of(files.unnamed) +
                 "; remove them, or leave out --strict");
}

}  // namespace cfck::model
