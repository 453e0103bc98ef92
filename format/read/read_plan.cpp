#include "format/read/read_plan.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "format/read/chunk_batch.hpp"

namespace cfck::format {
namespace {

// Below this many bytes for each thread, starting one costs more than it saves.
constexpr std::uint64_t kBytesPerThread = std::uint64_t{1} << 18;

unsigned bits_of(const ViewRead& read) { return bits_per_element(read.stored->record.dtype); }

// True if chunks of the view can be copied to their places independently.
bool goes_by_chunks(const ViewRead& read) {
  const unsigned bits = bits_of(read);
  return read.view.increasing() && read.view.whole_bytes(bits) &&
         (bits >= 8 || read.first % 8 * bits % 8 == 0);
}

}  // namespace

ElementView view_of(const Record& record) {
  return record.kind == RecordKind::kAlias
             ? ElementView(record.element_offset, record.shape, record.strides)
             : ElementView(0, record.n_elems);
}

Result<void> ReadPlan::add_whole(const Record& record, MutableBytes out) {
  CFCK_TRY(check_readable(record));
  if (record.n_elems == 0) {
    return {};
  }
  const StoredRecord& stored = file_.base_of(record);
  ViewRead read{&record, &stored, view_of(record), 0, record.n_elems, out};
  if (const auto found = whole_.find(&stored); found != whole_.end()) {
    total_bytes_ += out.size();
    late_reads_.push_back({std::move(read), found->second});
    return {};
  }
  if (record.kind != RecordKind::kAlias) {
    whole_.emplace(&stored, out);
  }
  return add(std::move(read));
}

Result<void> ReadPlan::add(ViewRead read) {
  total_bytes_ += read.out.size();
  if (!goes_by_chunks(read)) {
    late_reads_.push_back({std::move(read), {}});
    return {};
  }
  if (!preambles_.contains(read.stored)) {
    CFCK_TRY_ASSIGN(preambles_[read.stored], file_.read_preamble(*read.stored, read.asked->name));
  }
  reads_.push_back(std::move(read));
  const std::size_t number = reads_.size() - 1;
  if (reads_[number].stored->record.kind == RecordKind::kPacked) {
    add_pack_task(number);
  } else {
    add_chunks(number);
  }
  return {};
}

void ReadPlan::add_pack_task(std::size_t number) {
  const std::uint32_t pack = reads_[number].stored->pack;
  const auto [place, is_new] = pack_task_of_.try_emplace(pack, pack_tasks_.size());
  if (is_new) {
    pack_tasks_.push_back({pack, {}});
  }
  pack_tasks_[place->second].reads.push_back(number);
}

void ReadPlan::add_chunks(std::size_t number) {
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

MutableBytes ReadPlan::destination(const WantedChunk& wanted, std::uint64_t chunk_elems,
                                   std::uint64_t chunk_bytes, std::size_t number,
                                   ReadWorker& worker) const {
  // Elements increase strictly, so that as many as the chunk has are all of them.
  if (wanted.end - wanted.begin == chunk_elems) {
    const ViewRead& read = reads_[wanted.read];
    return read.out.subspan(byte_of(wanted.begin - read.first, bits_of(read)), chunk_bytes);
  }
  return worker.decoded(number, chunk_bytes);
}

void ReadPlan::copy_runs(const ViewRead& read, const WantedChunk& wanted, ByteView decoded,
                         std::uint64_t first_elem) const {
  const unsigned bits = bits_of(read);
  for (std::uint64_t flat = wanted.begin; flat < wanted.end;) {
    const std::uint64_t count = std::min(read.view.run_from(flat), wanted.end - flat);
    copy_elems(read.out, flat - read.first, decoded, read.view.element_of(flat) - first_elem, count,
               bits);
    flat += count;
  }
}

Result<void> ReadPlan::report(const ViewRead& read, std::uint64_t n_bytes) {
  return progress_.advance(n_bytes, read.asked->name);
}

Result<void> ReadPlan::run_batch(std::span<const WantedChunk> chunks, ReadWorker& worker) {
  const auto place_of = [&](const WantedChunk& wanted) {
    const ViewRead& read = reads_[wanted.read];
    ChunkPlace place =
        file_.place_of(*read.stored, wanted.chunk, wanted.offset_bytes, read.asked->name);
    place.preamble = preambles_.at(read.stored);
    return place;
  };
  const auto destination_of = [&](std::size_t i, const ChunkPlace& place) {
    return destination(chunks[i], place.n_elems, place.decoded_bytes, i, worker);
  };
  ChunkBatch batch(file_, Verify{file_.options.verify_chunks}, worker);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ChunkPlace place = place_of(chunks[i]);
    CFCK_TRY(batch.add(place, destination_of(i, place)));
  }
  CFCK_TRY(batch.decode());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const WantedChunk& wanted = chunks[i];
    const ViewRead& read = reads_[wanted.read];
    const ChunkPlace place = place_of(wanted);
    if (wanted.end - wanted.begin != place.n_elems) {
      copy_runs(read, wanted, destination_of(i, place),
                wanted.chunk * read.stored->record.chunk_elems);
    }
    CFCK_TRY(report(read, byte_of(wanted.end - wanted.begin, bits_of(read))));
  }
  return {};
}

Result<void> ReadPlan::run_pack(const PackTask& task, ReadWorker& worker) {
  const auto pack = file_.read_pack(task.pack);
  if (!pack) {
    return place_error(pack.error(), reads_[task.reads.front()].asked->name, 0);
  }
  for (const std::size_t number : task.reads) {
    const ViewRead& read = reads_[number];
    const Record& record = read.stored->record;
    const WantedChunk part{number, 0, 0, read.first, read.first + read.n_elems};
    const MutableBytes to = destination(part, record.n_elems, record.decoded_bytes, 0, worker);
    CFCK_TRY(decode_packed(file_, *read.stored, read.asked->name, **pack, worker, to));
    if (read.n_elems != record.n_elems) {
      copy_runs(read, part, to, 0);
    }
    CFCK_TRY(report(read, read.out.size()));
  }
  return {};
}

Result<void> ReadPlan::run_late(const LateRead& late) {
  const ViewRead& read = late.read;
  const unsigned bits = bits_of(read);
  if (!late.from.empty()) {
    read.view.gather(read.out, late.from, 0, read.first, read.n_elems, bits);
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
  CFCK_TRY(plan.add({read.asked, read.stored, ElementView(lowest, count), 0, count, range}));
  CFCK_TRY(plan.run());
  read.view.gather(read.out, range, lowest, read.first, read.n_elems, bits);
  return report(read, read.out.size());
}

unsigned ReadPlan::thread_count() const {
  const std::uint64_t n_tasks = chunks_.size() + pack_tasks_.size();
  const std::uint64_t useful = std::min(n_tasks, ceil_div(total_bytes_, kBytesPerThread));
  if (useful <= 1 || file_.options.threads == 1) {
    return 1;
  }
  return static_cast<unsigned>(
      std::min<std::uint64_t>(useful, resolve_threads(file_.options.threads)));
}

Result<void> ReadPlan::run() {
  const unsigned threads = thread_count();
  WorkerSet workers(file_.idle_workers(), threads);
  const std::span<const WantedChunk> chunks(chunks_);
  const std::size_t per_batch = workers[0].executor().batch_chunks();
  const std::size_t n_batches = ceil_div(chunks.size(), per_batch);
  CFCK_TRY(parallel_for(
      n_batches + pack_tasks_.size(), threads, [&](std::size_t index, unsigned worker) {
        if (index >= n_batches) {
          return run_pack(pack_tasks_[index - n_batches], workers[worker]);
        }
        const std::size_t first = index * per_batch;
        return run_batch(chunks.subspan(first, std::min(per_batch, chunks.size() - first)),
                         workers[worker]);
      }));
  for (const LateRead& late : late_reads_) {
    CFCK_TRY(run_late(late));
  }
  return {};
}

}  // namespace cfck::format
