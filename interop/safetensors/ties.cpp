#include "interop/safetensors/ties.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/json_tree.hpp"
#include "format/write/sharing/alias_plan.hpp"

namespace cfck::interop {
namespace {

using Json = nlohmann::json;

// Bounds the memory that a list of names takes when it is parsed.
constexpr std::size_t kMaxMarked = std::size_t{1} << 20;

// Returns what comes before the last dot of a name: the path of its module.
std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}
std::string_view own_name(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Tells entries of the metadata that save_model writes for names that it drops from others whose
// value happens to be the name of a tensor, such as {"ss_output_name": "emb_params"}.
class NameRule {
 public:
  explicit NameRule(const std::vector<SafetensorsEntry>& entries) {
    for (const SafetensorsEntry& entry : entries) modules_.insert(module_of(entry.name));
  }

  // Parameters are tied under one name in two modules (lm_head.weight and embed_tokens.weight), or
  // in a module that has other tensors.
  bool ties(std::string_view name, std::string_view kept) const {
    if (own_name(name) == own_name(kept)) return true;
    const std::string_view module = module_of(name);
    return !module.empty() && modules_.contains(module);
  }

 private:
  std::set<std::string_view> modules_;
};

// Returns the names that mark_ties() wrote.
std::set<std::string> marked_ties(const Metadata& metadata) {
  std::set<std::string> names;
  const auto found = metadata.find(std::string(kTiedNamesKey));
  if (found == metadata.end()) return names;
  const auto tree = JsonTree<Json>::parse(found->second, {kMaxMarked});
  if (!tree || !tree->root().is_array()) return names;
  for (const Json& name : tree->root()) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

bool is_in_order(const ArchiveTensor& tensor) {
  return tensor.sharing != Sharing::kMemory || format::is_contiguous(tensor.shape, tensor.strides);
}

}  // namespace

std::map<std::string, std::string> dropped_names(std::span<const ArchiveTensor> tensors) {
  std::map<std::pair<std::size_t, Shape>, std::vector<const std::string*>> names;
  for (const ArchiveTensor& tensor : tensors) {
    if (tensor.sharing != Sharing::kMemory || tensor.hidden) continue;
    const ArchiveTensor& base = tensors[tensor.base];
    if (tensor.n_elems != base.n_elems || base.n_elems == 0 || !is_in_order(tensor)) continue;
    auto& same = names[{tensor.base, tensor.shape}];
    if (same.empty() && !base.hidden && base.shape == tensor.shape) same.push_back(&base.name);
    same.push_back(&tensor.name);
  }
  std::map<std::string, std::string> dropped;
  for (const auto& [place, same] : names) {
    const std::string& kept = **std::min_element(
        same.begin(), same.end(), [](const auto* a, const auto* b) { return *a < *b; });
    for (const std::string* name : same) {
      if (*name != kept) dropped.emplace(*name, kept);
    }
  }
  return dropped;
}

std::vector<SafetensorsTie> ties_of(const std::vector<SafetensorsEntry>& entries,
                                    const Metadata& metadata) {
  std::vector<SafetensorsTie> ties = possible_ties(entries, metadata);
  if (ties.empty()) return ties;
  const NameRule rule(entries);
  const std::set<std::string> marked = marked_ties(metadata);
  std::erase_if(ties, [&](const SafetensorsTie& tie) {
    return !rule.ties(tie.name, entries[tie.entry].name) && !marked.contains(tie.name);
  });
  return ties;
}

void mark_ties(const std::map<std::string, std::string>& dropped,
               const std::vector<SafetensorsEntry>& entries, Metadata& metadata) {
  const NameRule rule(entries);
  std::string marked;
  for (const auto& [name, kept] : dropped) {
    if (!rule.ties(name, kept)) marked += (marked.empty() ? "[" : ",") + Json(name).dump();
  }
  if (!marked.empty()) metadata.insert_or_assign(std::string(kTiedNamesKey), marked + "]");
}

std::vector<SafetensorsTie> possible_ties(const std::vector<SafetensorsEntry>& entries,
                                          const Metadata& metadata) {
  std::vector<SafetensorsTie> ties;
  if (metadata.empty()) return ties;
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < entries.size(); ++i) numbers.emplace(entries[i].name, i);
  for (const auto& [name, kept] : metadata) {
    const auto found = numbers.find(kept);
    if (found == numbers.end() || entries[found->second].n_bytes == 0) continue;
    if (name.empty() || name.size() > kMaxTiedNameBytes) continue;
    if (name == kMetadataKey || numbers.contains(name)) continue;
    ties.push_back({name, found->second});
  }
  return ties;
}

bool are_tied(const ArchiveTensor& a, const ArchiveTensor& b) {
  const auto place = [](const ArchiveTensor& tensor) {
    const bool is_view = tensor.sharing == Sharing::kMemory;
    return std::pair(is_view ? tensor.base : tensor.index, is_view ? tensor.element_offset : 0);
  };
  return place(a) == place(b) && a.shape == b.shape && is_in_order(a) && is_in_order(b);
}

}  // namespace cfck::interop
