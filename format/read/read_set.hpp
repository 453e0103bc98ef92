// The reads of one call: views of records, and the chunks and packs that they touch.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "format/container/element_view.hpp"
#include "format/read/chunks/open_file.hpp"

namespace cfck::format {

// One read of a call: flat elements [first, first + n_elems) of a view of a record
// that has data of its own.
struct ViewRead {
  const Record* asked = nullptr;  // names it in errors and progress
  const StoredRecord* stored = nullptr;
  ElementView view;
  std::uint64_t first = 0;
  std::uint64_t n_elems = 0;
  MutableBytes out;  // of the host or of a device
};

// The wanted part of a chunk.
struct WantedChunk {
  std::size_t read = 0;
  std::uint64_t chunk = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t begin = 0;  // flat
  std::uint64_t end = 0;
};

// The reads of records in one pack.
struct WantedPack {
  std::uint32_t pack = 0;
  std::vector<std::size_t> reads;
};

// A read that is filled when everything else is done.
struct DeferredRead {
  ViewRead read;
  ByteView from;  // the whole base, if the same call reads it; else it is read on its own
};

// Collects the reads of a call.
class ReadSet {
 public:
  explicit ReadSet(const OpenFile& file) : file_(file) {}

  // Adds a whole record. Duplicates and aliases of records that are read anyway are copied from
  // there.
  Result<void> add_whole(const Record& record, MutableBytes out);
  Result<void> add(ViewRead read);

  const std::vector<ViewRead>& reads() const { return reads_; }
  const std::vector<WantedChunk>& chunks() const { return chunks_; }
  const std::vector<WantedPack>& packs() const { return packs_; }
  const std::vector<DeferredRead>& deferred() const { return deferred_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  // Where a chunk is, with the preamble of its record.
  ChunkPlace place_of(const WantedChunk& wanted) const;

 private:
  void add_chunks(std::size_t number);
  void add_to_pack(std::size_t number);

  const OpenFile& file_;
  std::vector<ViewRead> reads_;
  // Preambles of records, however many reads they have.
  std::unordered_map<const StoredRecord*, std::vector<std::byte>> preambles_;
  std::vector<WantedChunk> chunks_;
  std::vector<WantedPack> packs_;
  std::unordered_map<std::uint32_t, std::size_t> number_of_pack_;
  std::vector<DeferredRead> deferred_;
  std::unordered_map<const StoredRecord*, MutableBytes> whole_;
  std::uint64_t total_bytes_ = 0;
};

// Returns the view of its base that an alias is; for any other record, all its elements.
ElementView view_of(const Record& record);

unsigned bits_of(const ViewRead& read);

// Copies the wanted elements of a chunk, decoded from its element `first_elem` on, to their places
// in `out`, which is all of the read.
void copy_runs(const ViewRead& read, const WantedChunk& wanted, ByteView decoded,
               std::uint64_t first_elem, MutableBytes out);

}  // namespace cfck::format
