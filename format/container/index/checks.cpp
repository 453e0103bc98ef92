#include "format/container/index/checks.hpp"

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

struct HashedName {
  std::uint64_t hash;
  const std::string* name;
};

// Computes the last element of the base that the alias touches; false on overflow. Requires: no
// dimension is 0.
bool last_element(const Record& alias, std::uint64_t& last) {
  last = alias.element_offset;
  for (std::size_t i = 0; i < alias.shape.size(); ++i) {
    std::uint64_t reach = 0;
    if (!checked_mul(alias.shape[i] - 1, alias.strides[i], reach) ||
        !checked_add(last, reach, last)) {
      return false;
    }
  }
  return true;
}

Result<void> check_base(const Record& record, const Record& base, std::uint64_t frame_offset) {
  if (base.kind != RecordKind::kChunked && base.kind != RecordKind::kPacked) {
    return corrupt("the base of an alias or a duplicate has no data of its own", frame_offset,
                   record.name);
  }
  if (record.dtype != base.dtype || record.codec != base.codec || record.entropy != base.entropy ||
      record.scan != base.scan) {
    return corrupt("a record and its base differ in dtype or codec", frame_offset, record.name);
  }
  if (record.kind == RecordKind::kDuplicate) {
    if (record.shape != base.shape || record.digest != base.digest) {
      return corrupt("a duplicate differs from its base in shape or digest", frame_offset,
                     record.name);
    }
    return {};
  }
  std::uint64_t last = 0;
  if (!last_element(record, last) || last >= base.n_elems) {
    return corrupt("an alias reaches beyond its base", frame_offset, record.name);
  }
  return {};
}

}  // namespace

bool needs_base(const Index& index) noexcept {
  return std::any_of(index.records.begin(), index.records.end(), [](const StoredRecord& stored) {
    return stored.record.base_digest.has_value();
  });
}

bool is_base_name(std::string_view name) noexcept {
  constexpr std::size_t kMaxBytes = 255;
  return !name.empty() && name.size() <= kMaxBytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<void> check_names(const Index& index, std::uint64_t frame_offset) {
  std::vector<HashedName> names;
  names.reserve(index.records.size());
  for (const StoredRecord& stored : index.records) {
    if (!stored.record.hidden) {
      const std::string& name = stored.record.name;
      names.push_back({hash64(std::as_bytes(std::span(name))), &name});
    }
  }
  std::sort(names.begin(), names.end(), [](const HashedName& a, const HashedName& b) {
    return a.hash != b.hash ? a.hash < b.hash : *a.name < *b.name;
  });
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i].hash == names[i - 1].hash && *names[i].name == *names[i - 1].name) {
      return corrupt("two records have the same name", frame_offset, *names[i].name);
    }
  }
  return {};
}

Result<void> check_bases(const Index& index, std::uint64_t frame_offset) {
  for (const StoredRecord& stored : index.records) {
    const Record& record = stored.record;
    if (record.kind != RecordKind::kAlias && record.kind != RecordKind::kDuplicate) {
      continue;
    }
    if (record.base >= index.records.size()) {
      return corrupt("the base of an alias or a duplicate does not exist", frame_offset,
                     record.name);
    }
    CFCK_TRY(check_base(record, index.records[record.base].record, frame_offset));
  }
  return {};
}

}  // namespace cfck::format
