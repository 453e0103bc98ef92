#include "format/update/patched_chunks.hpp"

#include <set>
#include <utility>

#include "cfck/base.hpp"
#include "codec/codec.hpp"

namespace cfck::format {
namespace {

class ChunkList {
 public:
  ChunkList(const OpenFile& file, const PatchedMemory& memory) : file_(file), memory_(memory) {
    for (const PatchedView& view : memory.views) {
      with_views_.insert(&file.base_of(*view.record));
    }
  }

  Result<void> add_record(std::uint32_t number) {
    const StoredRecord& stored = file_.index.records[number];
    const Record& record = stored.record;
    CFCK_TRY(check_readable(record));
    auto patched = std::make_unique<PatchedRecord>(stored, memory_.of_record[number]);
    CFCK_TRY_ASSIGN(patched->preamble, file_.read_preamble(stored, record.name));
    patched->is_base = is_base(stored);
    found_.records.push_back(std::move(patched));
    if (record.kind == RecordKind::kPacked) {
      add({.n_bytes = record.decoded_bytes});
    } else {
      add_chunks(stored);
    }
    return {};
  }

  PatchedChunks take() { return std::move(found_); }

 private:
  bool is_base(const StoredRecord& stored) const {
    const Destinations& to = memory_.of_record[stored.record.index];
    const BaseTensor* const tensor = base_tensor(file_, stored.record);
    const codec::Decoder* const decoder = codec::find_decoder(stored.record.codec);
    return tensor != nullptr && decoder != nullptr && decoder->needs_base() && to.size() == 1 &&
           !with_views_.contains(&stored) &&
           file_.base->in_place(*tensor).data() == to.front().out.data();
  }

  void add_chunks(const StoredRecord& stored) {
    std::uint64_t entry = stored.first_chunk;
    PatchedChunk chunk;
    chunk.offset_bytes = stored.offset_bytes;
    if (stored.has_preamble) {
      chunk.offset_bytes += file_.index.chunks[entry++].n_bytes;
    }
    for (; chunk.number < stored.record.n_chunks; ++chunk.number, ++entry) {
      chunk.n_bytes = file_.place_of(stored, chunk.number, chunk.offset_bytes, stored.record.name)
                          .decoded_bytes;
      add({.number = chunk.number,
           .offset_bytes = chunk.offset_bytes,
           .first_byte = chunk.first_byte,
           .n_bytes = chunk.n_bytes});
      chunk.offset_bytes += file_.index.chunks[entry].n_bytes;
      chunk.first_byte += chunk.n_bytes;
    }
  }

  // Adds a chunk of the last record.
  void add(PatchedChunk chunk) {
    chunk.record = found_.records.back().get();
    found_.chunks.push_back(std::move(chunk));
  }

  const OpenFile& file_;
  const PatchedMemory& memory_;
  std::set<const StoredRecord*> with_views_;
  PatchedChunks found_;
};

}  // namespace

void PatchedChunks::undo() noexcept {
  for (PatchedChunk& chunk : chunks) {
    if (chunk.changes.has_changes()) {
      chunk.changes.undo(chunk.part_of(chunk.record->destinations.front()));
    }
  }
  forget_changes();
}

void PatchedChunks::forget_changes() noexcept {
  for (PatchedChunk& chunk : chunks) {
    chunk.changes = {};
  }
}

const BaseTensor* base_tensor(const OpenFile& file, const Record& record) {
  return record.base_digest && file.base ? file.base->find(record.name) : nullptr;
}

Result<PatchedChunks> list_chunks(const OpenFile& file, const PatchedMemory& memory) {
  ChunkList list(file, memory);
  for (std::uint32_t i = 0; i < file.records.size(); ++i) {
    // Values of hidden records may go nowhere, however large a stranger made them: then they need
    // not be decoded.
    if (!memory.of_record[i].empty()) {
      CFCK_TRY(list.add_record(i));
    }
  }
  return list.take();
}

}  // namespace cfck::format
