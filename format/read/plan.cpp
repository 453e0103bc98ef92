#include "format/read/plan.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "format/read/chunks/decode.hpp"

namespace cfck::format {
namespace {

// Below this many bytes for each thread, starting one costs more than it saves.
constexpr std::uint64_t kBytesPerThread = std::uint64_t{1} << 18;

// Memory for the values is often new to the process. Where the system makes it of huge pages, the
// first write to one zeroes all of it, and threads that write to it at the same time each zero one,
// of which all but one are thrown away.
constexpr std::uint64_t kHugePageBytes = std::uint64_t{1} << 21;

}  // namespace

MutableBytes ReadPlan::destination(const WantedChunk& wanted, std::uint64_t chunk_elems,
                                   std::uint64_t chunk_bytes, ReadWorker& worker) const {
  // Elements increase strictly, so that as many as the chunk has are all of them.
  if (wanted.end - wanted.begin == chunk_elems) {
    const ViewRead& read = wanted_.reads()[wanted.read];
    return read.out.subspan(byte_of(wanted.begin - read.first, bits_of(read)), chunk_bytes);
  }
  return worker.decoded(chunk_bytes);
}

Result<void> ReadPlan::report(const ViewRead& read, std::uint64_t n_bytes) {
  return progress_.advance(n_bytes, read.asked->name);
}

Result<void> ReadPlan::run_chunk(const WantedChunk& wanted, ReadWorker& worker) {
  const ViewRead& read = wanted_.reads()[wanted.read];
  const ChunkPlace place = wanted_.place_of(wanted);
  const MutableBytes to = destination(wanted, place.n_elems, place.decoded_bytes, worker);
  CFCK_TRY(decode_chunk(file_, place, Verify{file_.options.verify_chunks}, worker, to));
  if (wanted.end - wanted.begin != place.n_elems) {
    copy_runs(read, wanted, to, wanted.chunk * read.stored->record.chunk_elems, read.out);
  }
  return report(read, byte_of(wanted.end - wanted.begin, bits_of(read)));
}

Result<void> ReadPlan::run_pack(const WantedPack& task, ReadWorker& worker) {
  const auto pack = file_.read_pack(task.pack);
  if (!pack) {
    return place_error(pack.error(), wanted_.reads()[task.reads.front()].asked->name, 0);
  }
  for (const std::size_t number : task.reads) {
    const ViewRead& read = wanted_.reads()[number];
    const Record& record = read.stored->record;
    const WantedChunk part{number, 0, 0, read.first, read.first + read.n_elems};
    const MutableBytes to = destination(part, record.n_elems, record.decoded_bytes, worker);
    CFCK_TRY(decode_packed(file_, *read.stored, read.asked->name, **pack, worker, to));
    if (read.n_elems != record.n_elems) {
      copy_runs(read, part, to, 0, read.out);
    }
    CFCK_TRY(report(read, read.out.size()));
  }
  return {};
}

Result<void> ReadPlan::run_deferred(const DeferredRead& deferred) {
  const ViewRead& read = deferred.read;
  const unsigned bits = bits_of(read);
  if (!deferred.from.empty()) {
    read.view.gather(read.out, deferred.from, 0, read.first, read.n_elems, bits);
    return report(read, read.out.size());
  }
  const Record& base = read.stored->record;
  const std::uint64_t last = read.first + read.n_elems - 1;
  // The range is on whole bytes, whatever the dtype: eight elements always are.
  const std::uint64_t lowest = read.view.lowest(read.first) / 8 * 8;
  const std::uint64_t count = std::min(base.n_elems, read.view.highest(last) / 8 * 8 + 8) - lowest;
  const std::uint64_t n_bytes = byte_of(count, bits);
  CFCK_TRY(file_.check_decoded_bytes(n_bytes, read.asked->name));
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
  const MutableBytes range(memory.get(), n_bytes);
  const ReadProgress silent;
  ReadPlan plan(file_, silent);
  CFCK_TRY(
      plan.wanted().add({read.asked, read.stored, ElementView(lowest, count), 0, count, range}));
  CFCK_TRY(plan.run());
  read.view.gather(read.out, range, lowest, read.first, read.n_elems, bits);
  return report(read, read.out.size());
}

unsigned ReadPlan::thread_count() const {
  const std::uint64_t n_tasks = wanted_.chunks().size() + wanted_.packs().size();
  const std::uint64_t useful = std::min(n_tasks, ceil_div(wanted_.total_bytes(), kBytesPerThread));
  if (useful <= 1 || file_.options.threads == 1) {
    return 1;
  }
  return static_cast<unsigned>(
      std::min<std::uint64_t>(useful, resolve_threads(file_.options.threads)));
}

// Chunks whose values begin in one huge page are one turn, but for the last page of each thread:
// these go one by one, so that the threads end together.
std::vector<std::size_t> ReadPlan::turns(unsigned threads) const {
  const std::vector<WantedChunk>& chunks = wanted_.chunks();
  std::vector<std::size_t> turns;
  std::uint64_t left_bytes = wanted_.total_bytes();
  std::uintptr_t last_page = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ViewRead& read = wanted_.reads()[chunks[i].read];
    const unsigned bits = bits_of(read);
    const std::byte* const values = read.out.data() + byte_of(chunks[i].begin - read.first, bits);
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(values) / kHugePageBytes;
    if (i == 0 || page != last_page || left_bytes <= threads * kHugePageBytes) {
      turns.push_back(i);
    }
    last_page = page;
    left_bytes -= std::min(left_bytes, byte_of(chunks[i].end - chunks[i].begin, bits));
  }
  turns.push_back(chunks.size());
  return turns;
}

Result<void> ReadPlan::run_chunks(std::size_t first, std::size_t last, ReadWorker& worker) {
  for (std::size_t i = first; i < last; ++i) {
    CFCK_TRY(run_chunk(wanted_.chunks()[i], worker));
  }
  return {};
}

Result<void> ReadPlan::run() {
  const unsigned threads = thread_count();
  WorkerSet workers(file_.idle_workers(), threads);
  const std::vector<std::size_t> turns = this->turns(threads);
  const std::size_t n_turns = turns.size() - 1;
  CFCK_TRY(parallel_for(
      n_turns + wanted_.packs().size(), threads, [&](std::size_t index, unsigned worker) {
        return index < n_turns ? run_chunks(turns[index], turns[index + 1], workers[worker])
                               : run_pack(wanted_.packs()[index - n_turns], workers[worker]);
      }));
  for (const DeferredRead& deferred : wanted_.deferred()) {
    CFCK_TRY(run_deferred(deferred));
  }
  return {};
}

}  // namespace cfck::format
