#include "format/read/read_set.hpp"

#include <algorithm>
#include <utility>

#include "base/overlap.hpp"

namespace cfck::format {
namespace {

// True if chunks of the view can be copied to their places independently.
bool goes_by_chunks(const ViewRead& read) {
  const unsigned bits = bits_of(read);
  return read.view.increasing() && read.view.whole_bytes(bits) &&
         (bits >= 8 || read.first % 8 * bits % 8 == 0);
}

}  // namespace

unsigned bits_of(const ViewRead& read) { return bits_per_element(read.stored->record.dtype); }

ElementView view_of(const Record& record) {
  return record.kind == RecordKind::kAlias
             ? ElementView(record.element_offset, record.shape, record.strides)
             : ElementView(0, record.n_elems);
}

// Values that are decoded with those of a base may only take the very places that these have.
Result<void> check_apart_from_base(const OpenFile& file, const ViewRead& read) {
  const Record& record = read.stored->record;
  if (!record.base_digest) {
    return {};
  }
  const ByteView values = file.base->in_place(*file.base->find(record.name));
  if (read.out.data() == values.data() && read.out.size() == values.size()) {
    return {};
  }
  return check_apart(read.out, values, "the tensor of the base", read.asked->name);
}

Result<void> ReadSet::add_whole(const Record& record, MutableBytes out) {
  CFCK_TRY(check_readable(record));
  if (record.n_elems == 0) {
    return {};
  }
  const StoredRecord& stored = file_.base_of(record);
  ViewRead read{&record, &stored, view_of(record), 0, record.n_elems, out};
  if (const auto found = whole_.find(&stored); found != whole_.end()) {
    total_bytes_ += out.size();
    deferred_.push_back({std::move(read), found->second});
    return {};
  }
  if (record.kind != RecordKind::kAlias) {
    whole_.emplace(&stored, out);
  }
  return add(std::move(read));
}

Result<void> ReadSet::add(ViewRead read) {
  total_bytes_ += read.out.size();
  if (!goes_by_chunks(read)) {
    deferred_.push_back({std::move(read), {}});
    return {};
  }
  CFCK_TRY(file_.check_base(*read.stored));
  CFCK_TRY(check_apart_from_base(file_, read));
  if (!preambles_.contains(read.stored)) {
    CFCK_TRY_ASSIGN(preambles_[read.stored], file_.read_preamble(*read.stored, read.asked->name));
  }
  reads_.push_back(std::move(read));
  const std::size_t number = reads_.size() - 1;
  if (reads_[number].stored->record.kind == RecordKind::kPacked) {
    add_to_pack(number);
  } else {
    add_chunks(number);
  }
  return {};
}

void ReadSet::add_to_pack(std::size_t number) {
  const std::uint32_t pack = reads_[number].stored->pack;
  const auto [place, is_new] = number_of_pack_.try_emplace(pack, packs_.size());
  if (is_new) {
    packs_.push_back({pack, {}});
  }
  packs_[place->second].reads.push_back(number);
}

void ReadSet::add_chunks(std::size_t number) {
  const ViewRead& read = reads_[number];
  const StoredRecord& stored = *read.stored;
  const std::uint64_t chunk_elems = stored.record.chunk_elems;
  const ChunkEntry* entries = file_.index.chunks.data() + stored.first_chunk;
  std::uint64_t offset_bytes = stored.offset_bytes;
  if (stored.has_preamble) {
    offset_bytes += entries[0].n_bytes;
    ++entries;
  }
  std::uint64_t chunk = 0;
  const std::uint64_t end = read.first + read.n_elems;
  for (std::uint64_t flat = read.first; flat < end;) {
    const std::uint64_t wanted = read.view.element_of(flat) / chunk_elems;
    for (; chunk < wanted; ++chunk) {
      offset_bytes += entries[chunk].n_bytes;
    }
    const std::uint64_t next = read.view.lower_bound(flat, end, (chunk + 1) * chunk_elems);
    chunks_.push_back({number, chunk, offset_bytes, flat, next});
    flat = next;
  }
}

ChunkPlace ReadSet::place_of(const WantedChunk& wanted) const {
  const ViewRead& read = reads_[wanted.read];
  ChunkPlace place =
      file_.place_of(*read.stored, wanted.chunk, wanted.offset_bytes, read.asked->name);
  place.preamble = preambles_.at(read.stored);
  return place;
}

void copy_runs(const ViewRead& read, const WantedChunk& wanted, ByteView decoded,
               std::uint64_t first_elem, MutableBytes out) {
  const unsigned bits = bits_of(read);
  for (std::uint64_t flat = wanted.begin; flat < wanted.end;) {
    const std::uint64_t count = std::min(read.view.run_from(flat), wanted.end - flat);
    copy_elems(out, flat - read.first, decoded, read.view.element_of(flat) - first_elem, count,
               bits);
    flat += count;
  }
}

}  // namespace cfck::format
