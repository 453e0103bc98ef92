#include "model/folder/module_files.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json_tree.hpp"
#include "model/folder/shard_index.hpp"

namespace cfck::model {
namespace {

using Json = nlohmann::json;

constexpr const char* kModules = "modules.json";
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

// Classes of sentence-transformers with weights of their own.
constexpr std::array<std::string_view, 9> kClasses = {"CNN",
                                                      "Dense",
                                                      "LSTM",
                                                      "LayerNorm",
                                                      "SparseAutoEncoder",
                                                      "SparseStaticEmbedding",
                                                      "StaticEmbedding",
                                                      "WeightedLayerPooling",
                                                      "WordEmbeddings"};

// `type` is the path of a class: "sentence_transformers.models.Dense".
bool loads_weights(std::string_view type) {
  type = type.substr(type.rfind('.') + 1);
  return std::find(kClasses.begin(), kClasses.end(), type) != kClasses.end();
}

}  // namespace

std::set<std::string> module_files(const std::string& folder,
                                   const std::vector<std::string>& files) {
  std::set<std::string> found;
  if (std::find(files.begin(), files.end(), kModules) == files.end()) return found;
  const auto text = read_text(folder + "/" + kModules, kMaxBytes);
  if (!text) return found;
  const auto modules = detail::JsonTree<Json>::parse(*text, {.max_values = kMaxBytes});
  if (!modules || !modules->root().is_array()) return found;
  for (const Json& module : modules->root()) {
    if (!module.is_object() || !module.contains("type") || !module.contains("path")) continue;
    const Json& type = module["type"];
    const Json& path = module["path"];
    if (!type.is_string() || !path.is_string() || !loads_weights(type.get<std::string>())) continue;
    const std::string file = path.get<std::string>() + "/model.safetensors";
    if (std::find(files.begin(), files.end(), file) != files.end()) found.insert(file);
  }
  return found;
}

}  // namespace cfck::model
