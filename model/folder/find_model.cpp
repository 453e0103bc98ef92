#include "model/folder/find_model.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files/temporary_names.hpp"
#include "base/json_tree.hpp"
#include "base/text.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/replace_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

// Libraries give the file of a model these names: transformers (the first two), diffusers (its LoRA
// adapters apart), peft, open_clip, Mistral.
constexpr std::array<std::string_view, 8> kModelNames = {
    "model",         "pytorch_model",   "diffusion_pytorch_model", "pytorch_lora_weights",
    "adapter_model", "open_clip_model", "open_clip_pytorch_model", "consolidated"};

bool is_model_name(std::string_view name) {
  return std::find(kModelNames.begin(), kModelNames.end(), name) != kModelNames.end();
}

constexpr int kUnknownName = 2;  // the rank of names that say nothing

// A file that may stand for a model.
struct Candidate {
  std::string name;
  std::string model;
  std::string variant;
  std::size_t format = 0;  // its line in formats.inc
  bool is_index = false;

  // Lower comes first: known names, known names of a variant, others.
  int rank() const {
    if (!is_model_name(model)) return kUnknownName;
    return variant.empty() ? 0 : 1;
  }
  // Among files of one model, lower comes first.
  auto preference() const { return std::tuple(format, !is_index, std::string_view(name)); }
  bool same_model(const Candidate& other) const {
    return model == other.model && variant == other.variant;
  }
};

std::size_t line_of(const ArchiveFormat& format) {
  const auto formats = file_formats();
  return static_cast<std::size_t>(std::find(formats.begin(), formats.end(), &format) -
                                  formats.begin());
}

using FormatList = std::span<const ArchiveFormat* const>;

const ArchiveFormat* format_by_suffix(std::string_view name, FormatList formats) {
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const ArchiveFormat* format) {
    const std::string_view suffix = suffix_of(name, *format);
    return !suffix.empty() && name.size() > suffix.size();
  });
  return found == formats.end() ? nullptr : *found;
}

std::optional<Candidate> candidate_of(const std::string& name, FormatList formats) {
  if (name.starts_with('.')) return std::nullopt;
  const auto index = parse_index_name(name);
  const ArchiveFormat* const format = index ? index->format : format_by_suffix(name, formats);
  if (std::find(formats.begin(), formats.end(), format) == formats.end()) return std::nullopt;
  if (!index && is_shard_name(name, *format)) return std::nullopt;
  Candidate candidate;
  candidate.name = name;
  candidate.format = line_of(*format);
  candidate.is_index = index.has_value();
  candidate.model = index ? std::string(index->stem)
                          : name.substr(0, name.size() - suffix_of(name, *format).size());
  const std::size_t dot = candidate.model.find('.');
  if (dot != std::string::npos && is_model_name(candidate.model.substr(0, dot))) {
    candidate.variant = candidate.model.substr(dot + 1);
    candidate.model.resize(dot);
  }
  if (index && !index->variant.empty()) {
    candidate.variant += candidate.variant.empty() ? "" : ".";
    candidate.variant += index->variant;
  }
  return candidate;
}

bool has_shards(const std::vector<std::string>& names, FormatList formats) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const ArchiveFormat* const format = format_by_suffix(name, formats);
    return format != nullptr && !name.starts_with('.') && is_shard_name(name, *format);
  });
}

Error no_model(const std::string& folder, const std::vector<std::string>& names) {
  if (auto foreign = foreign_folder(folder, names)) return std::move(*foreign);
  return not_found("the folder '" + escaped(folder) + "' has " +
                   (has_shards(names, archive_formats())
                        ? "shards, but no index of them, such as model.cfck.index.json"
                        : "neither model.cfck.index.json nor model.cfck, nor another model file"));
}

// Returns the candidates of the lowest rank, one of each model. Only indexes may have a rank above
// `max_rank`.
std::vector<Candidate> candidates_of(const std::string& folder,
                                     const std::vector<std::string>& names, FormatList formats,
                                     int max_rank) {
  std::vector<Candidate> best;
  for (const std::string& name : names) {
    auto candidate = candidate_of(name, formats);
    std::error_code ignored;
    if (!candidate || (candidate->rank() > max_rank && !candidate->is_index)) continue;
    if (fs::is_directory(folder + "/" + name, ignored)) continue;
    if (!best.empty() && candidate->rank() > best.front().rank()) continue;
    if (!best.empty() && candidate->rank() < best.front().rank()) best.clear();
    const auto same = std::find_if(best.begin(), best.end(), [&](const Candidate& other) {
      return other.same_model(*candidate);
    });
    if (same == best.end()) {
      best.push_back(std::move(*candidate));
    } else if (candidate->preference() < same->preference()) {
      *same = std::move(*candidate);
    }
  }
  return best;
}

std::vector<Candidate> best_candidates(const std::string& folder,
                                       const std::vector<std::string>& names) {
  constexpr int kKnownNames = 1;
  auto best = candidates_of(folder, names, archive_formats(), kUnknownName);
  return best.empty() ? candidates_of(folder, names, model_formats(), kKnownNames) : best;
}

Result<std::string> only_one(const std::string& folder, const std::vector<Candidate>& best) {
  if (best.size() == 1) return (fs::path(folder) / best.front().name).string();
  std::string files;
  for (const Candidate& candidate : best) {
    files += (files.empty() ? "" : ", ") + escaped(candidate.name);
  }
  return invalid_argument("the folder '" + escaped(folder) + "' has several models: " + files +
                          "; give the path of the one to load");
}

// Files of one format whose names say nothing: parts of one model, for all that can be known.
bool are_parts(const std::vector<Candidate>& best) {
  return std::all_of(best.begin(), best.end(), [&](const Candidate& candidate) {
    return candidate.rank() == kUnknownName && !candidate.is_index &&
           candidate.format == best.front().format;
  });
}

// Finds the models in a folder and in the folders below it.
class ModelSearch {
 public:
  Result<void> search(const std::string& folder, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) return io_error("cannot read '" + escaped(folder) + "': " + error.message());
    if (!seen_.insert(real).second) return {};  // reached through another link
    if (depth > kMaxDepth) return unsupported("'" + escaped(folder) + "' is nested too deeply");
    CFCK_TRY_ASSIGN(const auto names, names_in(folder));
    const bool is_model = is_one_model(folder, names);
    if (is_model) {
      models_.push_back(folder);
      add_beside(folder, names);
    } else {
      if (std::binary_search(names.begin(), names.end(), kPipelineIndex)) {
        CFCK_TRY(add_lacking(folder));
      }
      add_files(folder, names);
    }
    n_models_around_ += is_model ? 1 : 0;
    for (const std::string& name : names) {
      const std::string path = join(folder, name);
      if (name.starts_with('.') || is_temporary_name(name)) continue;
      if (fs::is_directory(path, error)) CFCK_TRY(search(path, depth + 1));
    }
    n_models_around_ -= is_model ? 1 : 0;
    return {};
  }

  std::vector<std::string> take() { return sorted(std::move(models_)); }
  std::vector<std::string> take_left_out() { return sorted(std::move(left_out_)); }
  std::vector<std::string> take_lacking() { return sorted(std::move(lacking_)); }

 private:
  static constexpr int kMaxDepth = 16;
  static constexpr std::string_view kPipelineIndex = "model_index.json";

  static std::vector<std::string> sorted(std::vector<std::string> paths) {
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  static std::string join(const std::string& folder, const std::string& name) {
    return (fs::path(folder) / name).string();
  }

  static bool is_one_model(const std::string& folder, const std::vector<std::string>& names) {
    if (!check_unmarked(folder)) return true;  // who opens it says why
    if (std::binary_search(names.begin(), names.end(), kPipelineIndex)) return false;
    if (has_shards(names, file_formats())) return true;
    const auto best = best_candidates(folder, names);
    if (best.size() != 1) return false;
    if (best.front().is_index || best.front().rank() < kUnknownName) return true;
    // Files of PyTorch beside it may be what goes with it: training_args.bin, optimizer.pt.
    return files_in(folder, names, false).size() == 1;
  }

  // Returns the files with a suffix of tensors, with or without those of model_formats().
  static std::vector<std::string> files_in(const std::string& folder,
                                           const std::vector<std::string>& names, bool all) {
    const auto models = model_formats();
    std::vector<std::string> files;
    for (const std::string& name : names) {
      const ArchiveFormat* const format = format_by_suffix(name, file_formats());
      if (format == nullptr || name.starts_with('.') || is_temporary_name(name)) continue;
      if (!all && std::find(models.begin(), models.end(), format) != models.end()) continue;
      std::error_code ignored;
      if (!fs::is_directory(join(folder, name), ignored)) files.push_back(join(folder, name));
    }
    return files;
  }

  // Sorts what is beside the model of a folder: files that are called like models are models too,
  // others are left out.
  void add_beside(const std::string& folder, const std::vector<std::string>& names) {
    const auto best = best_candidates(folder, names);
    if (best.size() != 1 || best.front().rank() == kUnknownName || !check_unmarked(folder)) return;
    std::vector<Candidate> models;
    for (const std::string& name : names) {
      const auto candidate = candidate_of(name, archive_formats());
      std::error_code ignored;
      if (!candidate || is_temporary_name(name)) continue;
      if (fs::is_directory(join(folder, name), ignored)) continue;
      if (candidate->same_model(best.front())) {
        if (name != best.front().name && !candidate->is_index) {
          left_out_.push_back(join(folder, name));
        }
      } else if (candidate->rank() == kUnknownName) {
        if (!candidate->is_index) left_out_.push_back(join(folder, name));
      } else {
        models.push_back(*candidate);
      }
    }
    for (const Candidate& one : models) {
      const bool is_best = std::none_of(models.begin(), models.end(), [&](const Candidate& other) {
        return other.same_model(one) && other.preference() < one.preference();
      });
      (is_best ? models_ : left_out_).push_back(join(folder, one.name));
    }
  }

  // Finds the folders of a pipeline without weights. An index that is not one says nothing.
  Result<void> add_lacking(const std::string& folder) {
    constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
    using Json = nlohmann::json;
    const auto text = read_text(join(folder, std::string(kPipelineIndex)), kMaxBytes);
    if (!text) return {};
    const auto index = detail::JsonTree<Json>::parse(*text, {.max_values = kMaxBytes});
    if (!index || !index->root().is_object()) return {};
    for (const auto& [name, value] : index->root().items()) {
      const std::string below = join(folder, name);
      std::error_code ignored;
      const bool is_component = value.is_array() && value.size() == 2 && value[0].is_string();
      if (!is_component || name.find('/') != std::string::npos) continue;
      if (!fs::exists(join(below, "config.json"), ignored)) continue;
      CFCK_TRY_ASSIGN(const bool has_weights, has_model(below));
      if (!has_weights) lacking_.push_back(below);
    }
    return {};
  }

  void add_files(const std::string& folder, const std::vector<std::string>& names) {
    const auto best = best_candidates(folder, names);
    if (best.empty() || best.front().rank() == kUnknownName) {
      for (std::string& file : files_in(folder, names, true)) {
        // Files below a model in other formats than those of folders go with it.
        const bool goes_with = n_models_around_ > 0 && !format_by_suffix(file, archive_formats());
        if (!goes_with) models_.push_back(std::move(file));
      }
      return;
    }
    for (const Candidate& candidate : best) models_.push_back(join(folder, candidate.name));
  }

  std::set<fs::path> seen_;
  int n_models_around_ = 0;  // folders above the present one that are models
  std::vector<std::string> models_;
  std::vector<std::string> left_out_;
  std::vector<std::string> lacking_;
};

}  // namespace

Result<std::vector<std::string>> all_models(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::vector<std::string>{path};
  ModelSearch search;
  CFCK_TRY(search.search(path, 0));
  std::vector<std::string> models = search.take();
  if (models.empty()) models.push_back(path);  // who opens it says what it has not got
  return models;
}

std::optional<Error> models_below(const std::string& folder) {
  constexpr std::size_t kMaxNamed = 8;
  const auto models = all_models(folder);
  if (!models) return std::nullopt;
  std::vector<std::string> names;
  for (const std::string& path : *models) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) continue;
    std::string name = fs::path(path).lexically_relative(folder).generic_string();
    if (name != ".") names.push_back(std::move(name));
  }
  if (names.empty()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text.append(i == 0 ? "" : ", ").append(escaped(names[i]));
  }
  if (names.size() > kMaxNamed) text += ", ...";
  return invalid_argument("the folder '" + escaped(folder) + "' has " +
                          (names.size() == 1 ? "its model in " : "several models, in ") + text +
                          "; name one of these folders");
}

Result<std::vector<std::string>> files_left_out(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::vector<std::string>();
  ModelSearch search;
  CFCK_TRY(search.search(path, 0));
  return search.take_left_out();
}

Result<std::vector<std::string>> beside_model(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return std::vector<std::string>();
  ModelSearch search;
  CFCK_TRY(search.search(folder, 0));
  std::vector<std::string> paths = search.take();
  if (std::erase(paths, folder) == 0) return std::vector<std::string>();
  const std::vector<std::string> others = search.take_left_out();
  paths.insert(paths.end(), others.begin(), others.end());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::vector<std::string>> folders_without_weights(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::vector<std::string>();
  ModelSearch search;
  CFCK_TRY(search.search(path, 0));
  return search.take_lacking();
}

Result<std::string> find_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  const auto best = best_candidates(folder, names);
  if (!best.empty()) return only_one(folder, best);
  auto below = models_below(folder);
  return below ? std::move(*below) : no_model(folder, names);
}

Result<std::optional<std::string>> find_named_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  const auto best = best_candidates(folder, names);
  if (are_parts(best)) return std::optional<std::string>();
  CFCK_TRY_ASSIGN(std::string model, only_one(folder, best));
  return std::optional(std::move(model));
}

Result<bool> has_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  return !best_candidates(folder, names).empty() || has_shards(names, file_formats());
}

bool may_be_model(std::string_view name, const ArchiveFormat& format) {
  const std::string_view suffix = suffix_of(name, format);
  if (suffix.empty() || name.starts_with('.')) return false;
  const auto models = model_formats();
  if (std::find(models.begin(), models.end(), &format) == models.end()) return true;
  name.remove_suffix(suffix.size());
  name = name.substr(0, name.find('.'));
  // The name of a shard is that of the model and "-00001-of-00002".
  return is_model_name(name) || is_model_name(name.substr(0, name.find('-')));
}

bool may_be_shard(std::string_view name, const ArchiveFormat& format) {
  if (!may_be_model(name, format)) return false;
  if (is_shard_name(name, format)) return true;
  const ArchiveFormat* const formats[] = {&format};
  const auto candidate = candidate_of(std::string(name), formats);
  return candidate && candidate->rank() == kUnknownName;
}

}  // namespace cfck::model
