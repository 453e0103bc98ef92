// Everything that one call reads: its chunks, their destinations, and their order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "format/read/element_view.hpp"
#include "format/read/open_file.hpp"
#include "format/read/shared_progress.hpp"

namespace cfck::format {

// One read of a call: flat elements [first, first + n_elems) of a view of a record
// that has data of its own.
struct ViewRead {
  const Record* asked = nullptr;  // names it in errors and progress
  const StoredRecord* stored = nullptr;
  ElementView view;
  std::uint64_t first = 0;
  std::uint64_t n_elems = 0;
  MutableBytes out;
};

// Collects reads, then runs them chunk by chunk on several threads. Chunks are
// decoded straight into the caller's memory where all their values are wanted in
// order.
class ReadPlan {
 public:
  ReadPlan(const OpenFile& file, const ReadProgress& progress) : file_(file), progress_(progress) {}

  // Adds a whole record. Duplicates and aliases of records that the plan reads anyway are copied
  // from there.
  Result<void> add_whole(const Record& record, MutableBytes out);
  Result<void> add(ViewRead read);
  Result<void> run();

 private:
  // The wanted part of a chunk.
  struct WantedChunk {
    std::size_t read = 0;
    std::uint64_t chunk = 0;
    std::uint64_t offset_bytes = 0;
    std::uint64_t begin = 0;  // flat
    std::uint64_t end = 0;
  };
  struct PackTask {
    std::uint32_t pack = 0;
    std::vector<std::size_t> reads;
  };
  // A read that is filled when everything else is done.
  struct LateRead {
    ViewRead read;
    ByteView from;  // the whole base, if this plan reads it; else it is read on its own
  };

  void add_chunks(std::size_t number);
  void add_pack_task(std::size_t number);
  // Fetches the chunks of a batch, then decodes them.
  Result<void> run_batch(std::span<const WantedChunk> batch, ReadWorker& worker);
  Result<void> run_pack(const PackTask& task, ReadWorker& worker);
  Result<void> run_late(const LateRead& late);
  void copy_runs(const ViewRead& read, const WantedChunk& wanted, ByteView decoded,
                 std::uint64_t first_elem) const;
  // `out`, or the worker's buffer of this number: where a chunk's values are decoded to.
  MutableBytes destination(const WantedChunk& wanted, std::uint64_t chunk_elems,
                           std::uint64_t chunk_bytes, std::size_t number, ReadWorker& worker) const;
  Result<void> report(const ViewRead& read, std::uint64_t n_bytes);
  unsigned thread_count() const;

  const OpenFile& file_;
  SharedProgress progress_;
  std::vector<ViewRead> reads_;
  // Preambles of records, however many reads they have.
  std::unordered_map<const StoredRecord*, std::vector<std::byte>> preambles_;
  std::vector<WantedChunk> chunks_;
  std::vector<PackTask> pack_tasks_;
  std::unordered_map<std::uint32_t, std::size_t> pack_task_of_;
  std::vector<LateRead> late_reads_;
  std::unordered_map<const StoredRecord*, MutableBytes> whole_;
  std::uint64_t total_bytes_ = 0;
};

// Returns the view of its base that an alias is; for any other record, all its elements.
ElementView view_of(const Record& record);

}  // namespace cfck::format
