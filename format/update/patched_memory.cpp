#include "format/update/patched_memory.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/overlap.hpp"
#include "base/text.hpp"
#include "format/container/element_view.hpp"
#include "format/read/read_set.hpp"

namespace cfck::format {
namespace {

// A record and the tensor of its name.
struct Match {
  const Record* record = nullptr;
  const PatchedTensor* tensor = nullptr;
};

Error of_tensor(const char* what, const std::string& name) {
  return missing_base(what).in_record(name);
}

Result<void> check_tensor(const OpenFile& file, const Record& record, const PatchedTensor& tensor) {
  CFCK_TRY(check_readable(record));
  if (tensor.dtype != record.dtype || tensor.shape != record.shape) {
    return of_tensor("the tensor has another dtype or shape in the patch", record.name);
  }
  if (tensor.data.size() != record.decoded_bytes) {
    return invalid_argument("the memory of the tensor has " + std::to_string(tensor.data.size()) +
                            " bytes where its shape has " + std::to_string(record.decoded_bytes))
        .in_record(record.name);
  }
  return check_apart(tensor.data, *file.source, record.name);
}

Result<std::vector<Match>> match_names(const OpenFile& file,
                                       std::span<const PatchedTensor> tensors) {
  std::map<std::string_view, const PatchedTensor*> by_name;
  for (const PatchedTensor& tensor : tensors) {
    if (!by_name.emplace(tensor.name, &tensor).second) {
      return invalid_argument("two tensors have this name").in_record(tensor.name);
    }
  }
  std::vector<Match> matches;
  for (const Record& record : file.records) {
    if (record.hidden) {
      continue;
    }
    const auto found = by_name.find(record.name);
    if (found == by_name.end()) {
      return of_tensor("the patch has a tensor of this name, but it is not among those to change",
                       record.name);
    }
    CFCK_TRY(check_tensor(file, record, *found->second));
    matches.push_back({&record, found->second});
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return of_tensor("the patch has no tensor of this name", by_name.begin()->second->name);
  }
  return matches;
}

bool has_all_of_owner(const Record& record, const StoredRecord& owner) {
  if (record.kind != RecordKind::kAlias) {
    return true;
  }
  const ElementView view = view_of(record);
  return record.n_elems == owner.record.n_elems && view.increasing() && view.element_of(0) == 0 &&
         view.run_from(0) == record.n_elems;
}

// Returns the address that the first element of the owner would have, were the tensor a view of it
// in memory as it is in the patch; nothing for views with gaps.
std::optional<std::uintptr_t> start_of_owner(const Match& match) {
  const Record& record = *match.record;
  const ElementView view = view_of(record);
  if (!view.increasing() || view.run_from(0) != record.n_elems) {
    return std::nullopt;
  }
  return reinterpret_cast<std::uintptr_t>(match.tensor->data.data()) -
         byte_of(view.element_of(0), bits_per_element(record.dtype));
}

// Tensors that share memory must do so in the patch as well: else one would overwrite what another
// is decoded from.
Result<void> check_overlaps(const OpenFile& file, std::vector<Match> matches) {
  std::erase_if(matches, [](const Match& match) { return match.tensor->data.empty(); });
  std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    return std::less<>()(a.tensor->data.data(), b.tensor->data.data());
  });
  const Match* furthest = nullptr;
  for (const Match& match : matches) {
    const auto end_of = [](const Match& of) {
      return of.tensor->data.data() + of.tensor->data.size();
    };
    const bool overlaps =
        furthest != nullptr && std::less<>()(match.tensor->data.data(), end_of(*furthest));
    if (overlaps &&
        (&file.base_of(*match.record) != &file.base_of(*furthest->record) ||
         !start_of_owner(match) || start_of_owner(match) != start_of_owner(*furthest))) {
      return invalid_argument("it shares memory with '" + escaped(furthest->record->name) +
                              "', but not in the patch; give it memory of its own")
          .in_record(match.record->name);
    }
    if (furthest == nullptr || std::less<>()(end_of(*furthest), end_of(match))) {
      furthest = &match;
    }
  }
  return {};
}

}  // namespace

Result<PatchedMemory> match_memory(const OpenFile& file, std::span<const PatchedTensor> tensors) {
  CFCK_TRY_ASSIGN(const std::vector<Match> matches, match_names(file, tensors));
  CFCK_TRY(check_overlaps(file, matches));
  PatchedMemory memory;
  memory.of_record.resize(file.records.size());
  for (const bool shares : {false, true}) {
    for (const Match& match : matches) {
      const StoredRecord& owner = file.base_of(*match.record);
      const bool is_owner = &owner == &file.index.records[match.record->index];
      if (is_owner == shares || match.tensor->data.empty()) {
        continue;
      }
      Destinations& of_owner = memory.of_record[&owner - file.index.records.data()];
      const bool is_there =
          std::any_of(of_owner.begin(), of_owner.end(), [&](const Destination& to) {
            return reinterpret_cast<std::uintptr_t>(to.out.data()) == start_of_owner(match);
          });
      if (is_there) {
        continue;  // it is a view of what the owner has
      }
      if (has_all_of_owner(*match.record, owner)) {
        of_owner.push_back({match.tensor->data, match.tensor->is_copy});
      } else {
        memory.views.push_back({match.record, match.tensor->data, match.tensor->is_copy});
      }
    }
  }
  return memory;
}

}  // namespace cfck::format
