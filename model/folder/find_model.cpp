#include "model/folder/find_model.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "model/archive_format.hpp"
#include "model/folder/folder_names.hpp"
#include "model/folder/shard_index.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

// Libraries give the file of a model these names: transformers (the first two), diffusers (its LoRA
// adapters apart), peft, open_clip, Mistral.
constexpr std::array<std::string_view, 7> kModelNames = {"model",
                                                         "pytorch_model",
                                                         "diffusion_pytorch_model",
                                                         "pytorch_lora_weights",
                                                         "adapter_model",
                                                         "open_clip_model",
                                                         "consolidated"};

bool is_model_name(std::string_view name) {
  return std::find(kModelNames.begin(), kModelNames.end(), name) != kModelNames.end();
}

// A file that may stand for a model.
struct Candidate {
  std::string name;
  std::string model;
  std::string variant;
  std::size_t format = 0;  // its line in formats.inc
  bool is_index = false;

  // Lower comes first: known names, known names of a variant, others.
  int rank() const {
    if (!is_model_name(model)) return 2;
    return variant.empty() ? 0 : 1;
  }
  // Among files of one model, lower comes first.
  auto preference() const { return std::tuple(format, !is_index, std::string_view(name)); }
  bool same_model(const Candidate& other) const {
    return model == other.model && variant == other.variant;
  }
};

std::size_t line_of(const ArchiveFormat& format) {
  const auto formats = archive_formats();
  return static_cast<std::size_t>(std::find(formats.begin(), formats.end(), &format) -
                                  formats.begin());
}

const ArchiveFormat* format_by_suffix(std::string_view name) {
  for (const ArchiveFormat* format : archive_formats()) {
    if (name.size() > format->suffix.size() && name.ends_with(format->suffix)) return format;
  }
  return nullptr;
}

std::optional<Candidate> candidate_of(const std::string& name) {
  if (name.starts_with('.')) return std::nullopt;
  const auto index = parse_index_name(name);
  const ArchiveFormat* const format = index ? index->format : format_by_suffix(name);
  if (format == nullptr || (!index && is_shard_name(name, *format))) return std::nullopt;
  Candidate candidate;
  candidate.name = name;
  candidate.format = line_of(*format);
  candidate.is_index = index.has_value();
  candidate.model =
      index ? std::string(index->stem) : name.substr(0, name.size() - format->suffix.size());
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

Error no_model(const std::string& folder, const std::vector<std::string>& names) {
  const bool has_shards = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const ArchiveFormat* const format = format_by_suffix(name);
    return format != nullptr && is_shard_name(name, *format);
  });
  return not_found("the folder '" + escaped(folder) + "' has " +
                   (has_shards
                        ? "shards, but no index of them, such as model.cfck.index.json"
                        : "neither model.cfck.index.json nor model.cfck, nor another model file"));
}

// Returns the candidates of the lowest rank, one of each model.
Result<std::vector<Candidate>> best_candidates(const std::string& folder,
                                               const std::vector<std::string>& names) {
  std::vector<Candidate> best;
  for (const std::string& name : names) {
    auto candidate = candidate_of(name);
    std::error_code ignored;
    if (!candidate || fs::is_directory(folder + "/" + name, ignored)) continue;
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
    return candidate.rank() == 2 && !candidate.is_index && candidate.format == best.front().format;
  });
}

}  // namespace

Result<std::string> find_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  CFCK_TRY_ASSIGN(const auto best, best_candidates(folder, names));
  return best.empty() ? no_model(folder, names) : only_one(folder, best);
}

Result<std::optional<std::string>> find_named_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto names, names_in(folder));
  CFCK_TRY_ASSIGN(const auto best, best_candidates(folder, names));
  if (are_parts(best)) return std::optional<std::string>();
  CFCK_TRY_ASSIGN(std::string model, only_one(folder, best));
  return std::optional(std::move(model));
}

}  // namespace cfck::model
