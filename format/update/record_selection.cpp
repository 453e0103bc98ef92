#include "format/update/record_selection.hpp"

#include <cstdint>
#include <limits>
#include <utility>

namespace cfck::format {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

bool has_base(const Record& record) {
  return record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
}

class Selection {
 public:
  Selection(const Index& index, const std::vector<bool>& drop) : index_(index), drop_(drop) {}

  Index make();

 private:
  void count_users();
  // Chooses where the bytes of each owner are described in the new index: a record of the old one,
  // or kNone.
  void choose_owners();
  void keep(std::uint32_t old);
  void copy_storage(const StoredRecord& from, StoredRecord& to);

  const Index& index_;
  const std::vector<bool>& drop_;
  std::vector<bool> has_alias_;
  std::vector<std::uint32_t> first_duplicate_;  // of an owner, among those that stay
  std::vector<std::uint32_t> holder_;           // of an owner's bytes: old numbers
  std::vector<std::uint32_t> new_number_;
  std::vector<std::uint32_t> new_pack_;
  Index result_;
};

void Selection::count_users() {
  const std::size_t n = index_.records.size();
  has_alias_.assign(n, false);
  first_duplicate_.assign(n, kNone);
  for (std::uint32_t i = 0; i < n; ++i) {
    const Record& record = index_.records[i].record;
    if (drop_[i] || !has_base(record)) {
      continue;
    }
    if (record.kind == RecordKind::kAlias) {
      has_alias_[record.base] = true;
    } else if (first_duplicate_[record.base] == kNone) {
      first_duplicate_[record.base] = i;
    }
  }
}

void Selection::choose_owners() {
  holder_.assign(index_.records.size(), kNone);
  for (std::uint32_t i = 0; i < holder_.size(); ++i) {
    const Record& record = index_.records[i].record;
    if (has_base(record)) {
      continue;
    }
    const bool stays = !drop_[i] && !record.hidden;
    holder_[i] = stays || has_alias_[i] ? i : first_duplicate_[i];
  }
}

void Selection::copy_storage(const StoredRecord& from, StoredRecord& to) {
  to.record.kind = from.record.kind;
  to.record.chunk_elems = from.record.chunk_elems;
  to.record.n_chunks = from.record.n_chunks;
  to.record.stored_bytes = from.record.stored_bytes;
  to.has_preamble = from.has_preamble;
  if (from.record.kind == RecordKind::kPacked) {
    std::uint32_t& pack = new_pack_[from.pack];
    if (pack == kNone) {
      pack = static_cast<std::uint32_t>(result_.packs.size());
      result_.packs.push_back(index_.packs[from.pack]);
    }
    to.pack = pack;
    to.pack_offset = from.pack_offset;
    to.payload_bytes = from.payload_bytes;
    return;
  }
  to.offset_bytes = from.offset_bytes;
  to.first_chunk = result_.chunks.size();
  const std::uint64_t n_entries = from.record.n_chunks + (from.has_preamble ? 1 : 0);
  for (std::uint64_t i = 0; i < n_entries; ++i) {
    result_.chunks.push_back(index_.chunks[from.first_chunk + i]);
  }
}

void Selection::keep(std::uint32_t old) {
  StoredRecord stored = index_.records[old];
  const Record& record = index_.records[old].record;
  const std::uint32_t owner = has_base(record) ? record.base : old;
  if (owner == old && drop_[old]) {
    stored.record.hidden = true;
    stored.record.name.clear();
  }
  if (holder_[owner] == old) {
    stored.record.base = 0;
    copy_storage(index_.records[owner], stored);
  }
  new_number_[old] = static_cast<std::uint32_t>(result_.records.size());
  result_.records.push_back(std::move(stored));
}

Index Selection::make() {
  count_users();
  choose_owners();
  new_number_.assign(index_.records.size(), kNone);
  new_pack_.assign(index_.packs.size(), kNone);
  for (std::uint32_t i = 0; i < index_.records.size(); ++i) {
    const Record& record = index_.records[i].record;
    if (has_base(record) ? !drop_[i] : holder_[i] == i) {
      keep(i);
    }
  }
  for (StoredRecord& stored : result_.records) {
    if (has_base(stored.record)) {
      stored.record.base = new_number_[holder_[stored.record.base]];
    }
  }
  result_.base_name = index_.base_name;
  return std::move(result_);
}

}  // namespace

Index select_records(const Index& index, const std::vector<bool>& drop) {
  return Selection(index, drop).make();
}

}  // namespace cfck::format
