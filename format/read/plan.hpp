// Everything that one call reads: its chunks, their destinations, and their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/read/chunks/open_file.hpp"
#include "format/read/read_set.hpp"
#include "format/read/shared_progress.hpp"

namespace cfck::format {

// Collects reads, then runs them chunk by chunk on several threads. Chunks are
// decoded straight into the caller's memory where all their values are wanted in
// order.
class ReadPlan {
 public:
  ReadPlan(const OpenFile& file, const ReadProgress& progress)
      : file_(file), progress_(progress), wanted_(file) {}

  // Returns the reads, to be added to.
  ReadSet& wanted() { return wanted_; }
  Result<void> run();

 private:
  // Where each turn of the threads begins in the wanted chunks, and their number.
  std::vector<std::size_t> turns(unsigned threads) const;
  Result<void> run_chunks(std::size_t first, std::size_t last, ReadWorker& worker);
  Result<void> run_chunk(const WantedChunk& wanted, ReadWorker& worker);
  Result<void> run_pack(const WantedPack& task, ReadWorker& worker);
  Result<void> run_deferred(const DeferredRead& deferred);
  // `out`, or the worker's buffer: where a chunk's values are decoded to.
  MutableBytes destination(const WantedChunk& wanted, std::uint64_t chunk_elems,
                           std::uint64_t chunk_bytes, ReadWorker& worker) const;
  Result<void> report(const ViewRead& read, std::uint64_t n_bytes);
  unsigned thread_count() const;

  const OpenFile& file_;
  SharedProgress progress_;
  ReadSet wanted_;
};

}  // namespace cfck::format
