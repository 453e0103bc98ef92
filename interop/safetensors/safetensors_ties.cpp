#include "interop/safetensors/safetensors_ties.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "format/write/alias_plan.hpp"

namespace cfck::format {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kMaxNameBytes = 65535;  // of a record, as Writer takes it

bool is_in_order(const Record& record) {
  return record.kind != RecordKind::kAlias || is_contiguous(record.shape, record.strides);
}

}  // namespace

std::map<std::string, std::string> dropped_names(std::span<const Record> records) {
  std::map<std::pair<std::uint32_t, Shape>, std::vector<const std::string*>> names;
  for (const Record& record : records) {
    if (record.kind != RecordKind::kAlias || record.hidden) continue;
    const Record& base = records[record.base];
    if (record.n_elems != base.n_elems || base.n_elems == 0 || !is_in_order(record)) continue;
    auto& same = names[{record.base, record.shape}];
    if (same.empty() && !base.hidden && base.shape == record.shape) same.push_back(&base.name);
    same.push_back(&record.name);
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
    if (name.empty() || name.size() > kMaxNameBytes) continue;
    if (name == kMetadataKey || numbers.contains(name)) continue;
    ties.push_back({name, found->second});
  }
  return ties;
}

bool are_tied(std::span<const Record> records, const Record& a, const Record& b) {
  const auto place = [&](const Record& record) {
    const bool is_alias = record.kind == RecordKind::kAlias;
    const auto own = static_cast<std::size_t>(&record - records.data());
    return std::pair(is_alias ? record.base : own, is_alias ? record.element_offset : 0);
  };
  return place(a) == place(b) && a.shape == b.shape && is_in_order(a) && is_in_order(b);
}

}  // namespace cfck::format
