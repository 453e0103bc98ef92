#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "cfck/base.hpp"
#include "cfck/patch.hpp"
#include "encode/leaf_edges.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/plan.hpp"
#include "format/read/reader_access.hpp"
#include "format/update/patched_chunks.hpp"

namespace cfck {
namespace {

using codec::ChangeLog;
using encode::LeafEdges;
using format::Destination;
using format::Destinations;
using format::OpenFile;
using format::PatchedChunk;
using format::PatchedRecord;
using format::StoredRecord;

// Chunks are changed where they lie while what they had takes no more than this; others are decoded
// twice, before and after everything is proven.
constexpr std::size_t kMaxLogBytes = std::size_t{40} << 20;
// What a chunk may take, in a log that grows by copying; so large ones are decoded twice, too.
constexpr std::size_t kMaxChunkLogBytes = std::size_t{8} << 20;
// Notes of a byte, if all change.
constexpr std::size_t kLogBytesPerByte = 3;
// What is given back to the system before the last attempt to write, which must not fail for want
// of memory: half of the tensors would have new values.
constexpr std::size_t kReserveBytes = std::size_t{1} << 22;

// What a worker found out about a chunk.
struct Proof {
  LeafEdges edges;
  LeafEdges base_edges;
};

// The values of a view, decoded before any view is written.
struct DecodedView {
  format::PatchedView view;
  std::vector<std::byte> values;
};

class Application {
 public:
  Application(const OpenFile& file, format::PatchedMemory memory)
      : file_(file),
        memory_(std::move(memory)),
        workers_(file.idle_workers(), resolve_threads(file.options.threads)) {}
  // Puts everything back, unless write() has come so far that tensors keep their new values.
  ~Application() { patched_.undo(); }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  Result<void> prove(const ReadProgress& progress);
  // Requires: everything is proven.
  Result<ApplyReport> write(const BeforeWriting& before_writing);

 private:
  Result<void> decode(const PatchedChunk& chunk, format::ReadWorker& worker, MutableBytes out,
                      ChangeLog* changes = nullptr) const;
  Result<Proof> prove_chunk(PatchedChunk& chunk, format::ReadWorker& worker);
  bool reserve_log(const PatchedChunk& chunk);
  Result<MutableBytes> new_values(PatchedChunk& chunk, format::ReadWorker& worker);
  Result<void> prove_chunks(const ReadProgress& progress);
  Result<void> check_digests();
  Result<void> check_base() const;
  Result<void> decode_views();
  ApplyReport report() const;
  Result<void> write_copies();
  Result<void> write_rest();
  Result<void> write_chunk(PatchedChunk& chunk, format::ReadWorker& worker) const;
  void write_views(bool to_copies) const;
  unsigned threads() const { return resolve_threads(file_.options.threads); }

  const OpenFile& file_;
  const format::PatchedMemory memory_;
  format::WorkerSet workers_;
  format::PatchedChunks patched_;
  std::atomic<std::size_t> n_log_bytes_ = 0;
  std::vector<DecodedView> views_;
  std::unique_ptr<std::byte[]> reserve_;
};

Result<void> Application::decode(const PatchedChunk& chunk, format::ReadWorker& worker,
                                 MutableBytes out, ChangeLog* changes) const {
  const StoredRecord& stored = chunk.record->stored;
  const std::string& name = stored.record.name;
  if (stored.record.kind == RecordKind::kPacked) {
    CFCK_TRY_ASSIGN(const std::shared_ptr<const format::PackBytes> pack,
                    file_.read_pack(stored.pack));
    return format::decode_packed(file_, stored, name, *pack, worker, out, changes);
  }
  format::ChunkPlace place = file_.place_of(stored, chunk.number, chunk.offset_bytes, name);
  place.preamble = chunk.record->preamble;
  return format::decode_chunk(file_, place, format::Verify{file_.options.verify_chunks}, worker,
                              out, changes);
}

std::size_t most_log_bytes(const PatchedChunk& chunk) { return kLogBytesPerByte * chunk.n_bytes; }

// Takes room for what is noted of a chunk. Returns false where there is none.
bool Application::reserve_log(const PatchedChunk& chunk) {
  const std::size_t most = most_log_bytes(chunk);
  if (most > kMaxChunkLogBytes) {
    return false;
  }
  if (n_log_bytes_.fetch_add(most) + most <= kMaxLogBytes) {
    return true;
  }
  n_log_bytes_ -= most;
  return false;
}

// Returns the new values of a chunk: where they belong, and then what they replace is noted, or in
// memory of the worker.
Result<MutableBytes> Application::new_values(PatchedChunk& chunk, format::ReadWorker& worker) {
  const Destinations& destinations = chunk.record->destinations;
  if (chunk.record->is_base && reserve_log(chunk)) {
    const MutableBytes values = chunk.part_of(destinations.front());
    CFCK_TRY(decode(chunk, worker, values, &chunk.changes));
    chunk.changes.shrink();
    n_log_bytes_ -= most_log_bytes(chunk) - chunk.changes.n_bytes();
    chunk.is_changed = chunk.changes.has_changes();
    chunk.is_written = true;
    return values;
  }
  const MutableBytes values = worker.decoded(chunk.n_bytes);
  CFCK_TRY(decode(chunk, worker, values));
  chunk.is_changed =
      std::any_of(destinations.begin(), destinations.end(), [&](const Destination& to) {
        return std::memcmp(chunk.part_of(to).data(), values.data(), values.size()) != 0;
      });
  chunk.is_written = !chunk.is_changed;
  return values;
}

Result<Proof> Application::prove_chunk(PatchedChunk& chunk, format::ReadWorker& worker) {
  PatchedRecord& record = *chunk.record;
  Proof proof;
  if (record.base_digest) {
    proof.base_edges = encode::hash_leaves(*record.base_digest, chunk.first_byte,
                                           chunk.part_of(record.destinations.front()));
  }
  CFCK_TRY_ASSIGN(const MutableBytes values, new_values(chunk, worker));
  proof.edges = encode::hash_leaves(record.digest, chunk.first_byte, values);
  return proof;
}

Result<void> Application::prove_chunks(const ReadProgress& progress) {
  format::SharedProgress shared(progress);
  OrderedPipeline pipeline(threads());
  for (PatchedChunk& chunk : patched_.chunks) {
    CFCK_TRY(pipeline.submit(
        [&](unsigned worker) {
          chunk.worker = worker;
          return prove_chunk(chunk, workers_[worker]);
        },
        [&](const Proof& proof) {
          encode::add_edges(chunk.record->digest, proof.edges);
          if (chunk.record->base_digest) {
            encode::add_edges(*chunk.record->base_digest, proof.base_edges);
          }
          return shared.advance(chunk.n_bytes, chunk.record->stored.record.name);
        }));
  }
  return pipeline.drain();
}

// Decoding with other values than those of the base may fail in any way: that they are others is
// what the caller has to know. Requires: the tensors are as they were.
Result<void> Application::check_base() const {
  const auto check = [&](const Record& record) -> Result<void> {
    const BaseTensor* const tensor = format::base_tensor(file_, record);
    if (tensor == nullptr) {
      return {};
    }
    CFCK_TRY_ASSIGN(const Digest digest, file_.base->digest(*tensor));
    if (digest != *record.base_digest) {
      return missing_base(
                 "the tensor has other values than the one that the patch was made for; nothing "
                 "was changed")
          .in_record(record.name);
    }
    return {};
  };
  return parallel_for(patched_.records.size(), threads(), [&](std::size_t i, unsigned) {
    return check(patched_.records[i]->stored.record);
  });
}

Result<void> Application::check_digests() {
  const auto is_right = [](PatchedRecord& record) {
    const Record& expected = record.stored.record;
    return record.digest.finish() == expected.digest &&
           (!record.base_digest || record.base_digest->finish() == *expected.base_digest);
  };
  for (const std::unique_ptr<PatchedRecord>& record : patched_.records) {
    if (!is_right(*record)) {
      patched_.undo();
      CFCK_TRY(check_base());
      return wrong_checksum(
                 "the patch is damaged, or was not made for this tensor: the decoded values differ "
                 "from those that were written. Nothing was changed")
          .in_record(record->stored.record.name);
    }
  }
  return {};
}

// Views of a part of another tensor that have memory of their own here.
Result<void> Application::decode_views() {
  for (const format::PatchedView& view : memory_.views) {
    DecodedView decoded{view, std::vector<std::byte>(view.out.size())};
    const ReadProgress silent;
    format::ReadPlan plan(file_, silent);
    CFCK_TRY(plan.wanted().add_whole(*view.record, decoded.values));
    CFCK_TRY(plan.run());
    if (digest_of(decoded.values) != view.record->digest) {
      return wrong_checksum("the patch is damaged: the decoded values differ from those written")
          .in_record(view.record->name);
    }
    views_.push_back(std::move(decoded));
  }
  return {};
}

Result<void> Application::prove(const ReadProgress& progress) {
  CFCK_TRY_ASSIGN(patched_, format::list_chunks(file_, memory_));
  Result<void> proven = prove_chunks(progress);
  if (proven) {
    CFCK_TRY(check_digests());
    CFCK_TRY(decode_views());
    reserve_ = std::make_unique_for_overwrite<std::byte[]>(kReserveBytes);
    return {};
  }
  const ErrorCode code = proven.error().code;
  if (code != ErrorCode::kCancelled && code != ErrorCode::kOutOfMemory) {
    patched_.undo();
    CFCK_TRY(check_base());
  }
  return proven;
}

// Copies a part of a tensor to others, or to copies alone.
void copy_part(const PatchedChunk& chunk, ByteView values, bool to_copies) {
  for (const Destination& to : chunk.record->destinations) {
    if (to.is_copy == to_copies) {
      std::copy(values.begin(), values.end(), to.out.begin() + static_cast<long>(chunk.first_byte));
    }
  }
}

bool has_copies(const Destinations& destinations) {
  return std::any_of(destinations.begin(), destinations.end(),
                     [](const Destination& to) { return to.is_copy; });
}

// Writes to copies. Where a chunk was decoded with the values of one, it is not decoded again: it
// has the new values then.
Result<void> Application::write_copies() {
  return parallel_for(patched_.chunks.size(), threads(),
                      [&](std::size_t i, unsigned worker) -> Result<void> {
                        const PatchedChunk& chunk = patched_.chunks[i];
                        if (chunk.is_written || !has_copies(chunk.record->destinations)) {
                          return {};
                        }
                        const MutableBytes values = workers_[worker].decoded(chunk.n_bytes);
                        CFCK_TRY(decode(chunk, workers_[worker], values));
                        copy_part(chunk, values, true);
                        return {};
                      });
}

Result<void> Application::write_chunk(PatchedChunk& chunk, format::ReadWorker& worker) const {
  if (chunk.is_written) {
    return {};
  }
  if (const Destination& first = chunk.record->destinations.front(); first.is_copy) {
    copy_part(chunk, chunk.part_of(first), false);
  } else {
    const MutableBytes values = worker.decoded(chunk.n_bytes);
    CFCK_TRY(decode(chunk, worker, values));
    copy_part(chunk, values, false);
  }
  chunk.is_written = true;
  return {};
}

void Application::write_views(bool to_copies) const {
  for (const auto& [view, values] : views_) {
    if (view.is_copy == to_copies) {
      std::copy(values.begin(), values.end(), view.out.begin());
    }
  }
}

ApplyReport Application::report() const {
  std::set<const StoredRecord*> changed;
  for (const PatchedChunk& chunk : patched_.chunks) {
    if (chunk.is_changed) {
      changed.insert(&chunk.record->stored);
    }
  }
  // Views that had other values than the part of the record that it is a view of.
  std::set<const Record*> changed_views;
  for (const DecodedView& decoded : views_) {
    if (!std::equal(decoded.values.begin(), decoded.values.end(), decoded.view.out.begin())) {
      changed_views.insert(decoded.view.record);
    }
  }
  ApplyReport report;
  for (const Record& record : file_.records) {
    const bool is_changed =
        changed.contains(&file_.base_of(record)) || changed_views.contains(&record);
    if (!record.hidden && is_changed) {
      report.changed.push_back(record.name);
    }
  }
  return report;
}

Result<void> Application::write_rest() {
  // Made in advance, since making it takes memory.
  Error too_late{
      ErrorCode::kOutOfMemory,
      "out of memory; some tensors have their new values already: load all of them again",
      {},
      {}};
  patched_.forget_changes();
  // What a worker has decoded before takes no memory that it lacks.
  Result<void> written =
      parallel_for(threads(), threads(), [&](std::size_t worker, unsigned) -> Result<void> {
        for (PatchedChunk& chunk : patched_.chunks) {
          if (chunk.worker == worker) {
            CFCK_TRY(write_chunk(chunk, workers_[chunk.worker]));
          }
        }
        return {};
      });
  if (!written) {
    // Only memory can have been missing, for threads.
    reserve_.reset();
    for (PatchedChunk& chunk : patched_.chunks) {
      written = run_guarded([&] { return write_chunk(chunk, workers_[chunk.worker]); });
      if (!written) {
        return too_late;
      }
    }
  }
  write_views(false);
  return {};
}

Result<ApplyReport> Application::write(const BeforeWriting& before_writing) {
  ApplyReport report = this->report();
  CFCK_TRY(write_copies());
  write_views(true);
  if (before_writing && !before_writing(report)) {
    return cancelled();
  }
  CFCK_TRY(write_rest());
  return report;
}

// The tensors as a base. They change while they are one: each chunk when its own values are
// decoded, and nothing else is decoded with it.
Result<std::shared_ptr<const Base>> base_of(std::span<const PatchedTensor> tensors) {
  std::vector<NamedTensor> named;
  named.reserve(tensors.size());
  for (const PatchedTensor& tensor : tensors) {
    named.push_back({tensor.name, {tensor.dtype, tensor.shape, tensor.data}});
  }
  return base_in_memory(named);
}

// Returns the patch in memory: a file may change between its two readings.
Result<std::unique_ptr<const ByteSource>> in_memory(const ByteSource& patch) {
  if (!patch.mapped().empty() && patch.descriptor() < 0) {
    return std::unique_ptr<const ByteSource>(std::make_unique<MemorySource>(patch.mapped()));
  }
  std::vector<std::byte> bytes(patch.size());
  CFCK_TRY(patch.read_at(0, bytes));
  return std::unique_ptr<const ByteSource>(std::make_unique<OwnedMemorySource>(std::move(bytes)));
}

}  // namespace

Result<ApplyReport> apply_patch(const ByteSource& patch, std::span<const PatchedTensor> tensors,
                                DecodeOptions options, const ReadProgress& progress,
                                const BeforeWriting& before_writing) {
  return run_guarded([&]() -> Result<ApplyReport> {
    CFCK_TRY_ASSIGN(options.base, base_of(tensors));
    CFCK_TRY_ASSIGN(std::unique_ptr<const ByteSource> source, in_memory(patch));
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(std::move(source), std::move(options)));
    const OpenFile& file = ReaderAccess::file(reader);
    CFCK_TRY_ASSIGN(format::PatchedMemory memory, format::match_memory(file, tensors));
    Application application(file, std::move(memory));
    CFCK_TRY(application.prove(progress));
    return application.write(before_writing);
  });
}

}  // namespace cfck
