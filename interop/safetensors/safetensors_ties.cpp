#include "interop/safetensors/safetensors_ties.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "format/write/alias_plan.hpp"

namespace cfck::interop {
namespace {

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
  std::vector<SafetensorsTie> ties;
  if (metadata.empty()) return ties;
  std::unordered_map<std::string_view, std::size_t> numbers;
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
