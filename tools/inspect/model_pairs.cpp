#include "tools/inspect/model_pairs.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "model/folder/find_model.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

std::string without_suffix(std::string name) {
  for (const model::ArchiveFormat* format : model::file_formats()) {
    const std::string_view suffix = model::suffix_of(name, *format);
    if (suffix.empty() || suffix.size() == name.size()) continue;
    name.resize(name.size() - suffix.size());
    break;
  }
  return name;
}

// Returns the paths by what they are paired by. Of two formats under one name each keeps its
// suffix.
std::map<std::string, std::string> by_name(const std::string& folder,
                                           const std::vector<std::string>& models) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> names;
  for (const std::string& path : models) {
    names.push_back(fs::path(path).lexically_relative(folder).generic_string());
    ++counts[without_suffix(names.back())];
  }
  std::map<std::string, std::string> paths;
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::string name = without_suffix(names[i]);
    paths.emplace(counts[name] == 1 ? std::move(name) : names[i], models[i]);
  }
  return paths;
}

}  // namespace

Result<std::vector<ModelPair>> model_pairs(const std::string& a, const std::string& b) {
  CFCK_TRY_ASSIGN(const auto models_a, model::all_models(a));
  CFCK_TRY_ASSIGN(const auto models_b, model::all_models(b));
  if (models_a.size() == 1 && models_b.size() == 1) {
    return std::vector<ModelPair>{{models_a.front(), models_b.front()}};
  }
  std::map<std::string, ModelPair> pairs;
  for (auto& [name, path] : by_name(a, models_a)) pairs[name].a = path;
  for (auto& [name, path] : by_name(b, models_b)) pairs[name].b = path;
  std::vector<ModelPair> list;
  for (auto& [name, pair] : pairs) list.push_back(std::move(pair));
  return list;
}

}  // namespace cfck::tools
