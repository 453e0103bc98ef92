#include <algorithm>
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
#include "format/update/patched_memory.hpp"

namespace cfck {
namespace {

using encode::LeafEdges;
using format::Destination;
using format::Destinations;
using format::OpenFile;
using format::StoredRecord;

// What is given back to the system before the last attempt to write, which must not fail for want
// of memory: half of the tensors would have new values.
constexpr std::size_t kReserveBytes = std::size_t{1} << 22;

// A record with data of its own, while its chunks are proven.
struct ProvenRecord {
  ProvenRecord(const StoredRecord& stored_record, std::vector<std::byte> preamble_bytes,
               const Destinations& to)
      : stored(stored_record),
        preamble(std::move(preamble_bytes)),
        destinations(to),
        digest(stored.record.decoded_bytes) {
    if (stored.record.base_digest) {
      base_digest.emplace(stored.record.decoded_bytes);
    }
  }

  const StoredRecord& stored;
  const std::vector<std::byte> preamble;
  const Destinations& destinations;
  DigestBuilder digest;
  std::optional<DigestBuilder> base_digest;
};

// A chunk of a record, or a packed record.
struct Chunk {
  ProvenRecord* record = nullptr;
  std::uint64_t number = 0;
  std::uint64_t offset_bytes = 0;  // of the extent
  std::uint64_t first_byte = 0;    // of the values, in the tensor
  std::uint64_t n_bytes = 0;
  bool is_written = true;  // or need not be
};

// What a worker found out about a chunk.
struct Proof {
  LeafEdges edges;
  LeafEdges base_edges;
  bool is_changed = false;
};

// The values of a view, decoded before anything is written.
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

  Result<void> prove(const ReadProgress& progress);
  // Requires: everything is proven.
  Result<ApplyReport> write(const BeforeWriting& before_writing);

 private:
  Result<void> list_chunks();
  Result<void> decode(const Chunk& chunk, format::ReadWorker& worker, MutableBytes out) const;
  Result<Proof> prove_chunk(const Chunk& chunk, format::ReadWorker& worker) const;
  Result<void> prove_chunks(const ReadProgress& progress);
  Result<void> check_digests() const;
  Result<void> check_base() const;
  Result<void> decode_views();
  ApplyReport report() const;
  Result<void> write_copies();
  Result<void> write_rest();
  Result<void> write_chunk(Chunk& chunk, format::ReadWorker& worker) const;
  void write_views(bool to_copies) const;
  unsigned threads() const { return resolve_threads(file_.options.threads); }

  const OpenFile& file_;
  const format::PatchedMemory memory_;
  format::WorkerSet workers_;
  std::vector<std::unique_ptr<ProvenRecord>> records_;
  std::vector<Chunk> chunks_;
  std::vector<DecodedView> views_;
  std::unique_ptr<std::byte[]> reserve_;
};

Result<void> Application::list_chunks() {
  for (std::uint32_t i = 0; i < file_.records.size(); ++i) {
    const StoredRecord& stored = file_.index.records[i];
    const Record& record = stored.record;
    // Values of hidden records may go nowhere, however large a stranger made them: then they need
    // not be decoded.
    if (memory_.of_record[i].empty()) {
      continue;
    }
    CFCK_TRY(format::check_readable(record));
    CFCK_TRY_ASSIGN(std::vector<std::byte> preamble, file_.read_preamble(stored, record.name));
    records_.push_back(
        std::make_unique<ProvenRecord>(stored, std::move(preamble), memory_.of_record[i]));
    ProvenRecord* const proven = records_.back().get();
    if (record.kind == RecordKind::kPacked) {
      chunks_.push_back({proven, 0, 0, 0, record.decoded_bytes});
      continue;
    }
    std::uint64_t entry = stored.first_chunk + (stored.has_preamble ? 1 : 0);
    std::uint64_t offset_bytes =
        stored.offset_bytes +
        (stored.has_preamble ? file_.index.chunks[stored.first_chunk].n_bytes : 0);
    std::uint64_t first_byte = 0;
    for (std::uint64_t chunk = 0; chunk < record.n_chunks; ++chunk, ++entry) {
      const std::uint64_t n_bytes =
          file_.place_of(stored, chunk, offset_bytes, record.name).decoded_bytes;
      chunks_.push_back({proven, chunk, offset_bytes, first_byte, n_bytes});
      offset_bytes += file_.index.chunks[entry].n_bytes;
      first_byte += n_bytes;
    }
  }
  return {};
}

Result<void> Application::decode(const Chunk& chunk, format::ReadWorker& worker,
                                 MutableBytes out) const {
  const StoredRecord& stored = chunk.record->stored;
  const std::string& name = stored.record.name;
  if (stored.record.kind == RecordKind::kPacked) {
    CFCK_TRY_ASSIGN(const std::shared_ptr<const format::PackBytes> pack,
                    file_.read_pack(stored.pack));
    return format::decode_packed(file_, stored, name, *pack, worker, out);
  }
  format::ChunkPlace place = file_.place_of(stored, chunk.number, chunk.offset_bytes, name);
  place.preamble = chunk.record->preamble;
  return format::decode_chunk(file_, place, format::Verify{file_.options.verify_chunks}, worker,
                              out);
}

Result<Proof> Application::prove_chunk(const Chunk& chunk, format::ReadWorker& worker) const {
  ProvenRecord& record = *chunk.record;
  const auto part_of = [&](MutableBytes tensor) {
    return tensor.subspan(chunk.first_byte, chunk.n_bytes);
  };
  Proof proof;
  if (record.base_digest) {
    proof.base_edges = encode::hash_leaves(*record.base_digest, chunk.first_byte,
                                           part_of(record.destinations.front().out));
  }
  const MutableBytes values = worker.decoded(chunk.n_bytes);
  CFCK_TRY(decode(chunk, worker, values));
  proof.edges = encode::hash_leaves(record.digest, chunk.first_byte, values);
  for (const Destination& to : record.destinations) {
    proof.is_changed =
        proof.is_changed || std::memcmp(part_of(to.out).data(), values.data(), values.size()) != 0;
  }
  return proof;
}

Result<void> Application::prove_chunks(const ReadProgress& progress) {
  format::SharedProgress shared(progress);
  OrderedPipeline pipeline(threads());
  for (Chunk& chunk : chunks_) {
    CFCK_TRY(pipeline.submit([&](unsigned worker) { return prove_chunk(chunk, workers_[worker]); },
                             [&](const Proof& proof) {
                               encode::add_edges(chunk.record->digest, proof.edges);
                               if (chunk.record->base_digest) {
                                 encode::add_edges(*chunk.record->base_digest, proof.base_edges);
                               }
                               chunk.is_written = !proof.is_changed;
                               return shared.advance(chunk.n_bytes,
                                                     chunk.record->stored.record.name);
                             }));
  }
  return pipeline.drain();
}

// Decoding with other values than those of the base may fail in any way: that they are others is
// what the caller has to know.
Result<void> Application::check_base() const {
  return parallel_for(records_.size(), threads(), [&](std::size_t i, unsigned) {
    return file_.check_base(records_[i]->stored);
  });
}

Result<void> Application::check_digests() const {
  for (const std::unique_ptr<ProvenRecord>& proven : records_) {
    const Record& record = proven->stored.record;
    if (proven->base_digest && proven->base_digest->finish() != *record.base_digest) {
      return missing_base(
                 "the tensor has other values than the one that the patch was made for; nothing "
                 "was changed")
          .in_record(record.name);
    }
  }
  for (const std::unique_ptr<ProvenRecord>& proven : records_) {
    if (proven->digest.finish() != proven->stored.record.digest) {
      return wrong_checksum(
                 "the patch is damaged, or was not made for this tensor: the decoded values differ "
                 "from those that were written. Nothing was changed")
          .in_record(proven->stored.record.name);
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
  CFCK_TRY(list_chunks());
  Result<void> proven = prove_chunks(progress);
  if (proven) {
    CFCK_TRY(check_digests());
    CFCK_TRY(decode_views());
    reserve_ = std::make_unique_for_overwrite<std::byte[]>(kReserveBytes);
    return {};
  }
  const ErrorCode code = proven.error().code;
  if (code != ErrorCode::kCancelled && code != ErrorCode::kOutOfMemory) {
    CFCK_TRY(check_base());
  }
  return proven;
}

// Copies a part of a tensor to others, or to copies alone.
void copy_part(const Chunk& chunk, ByteView values, bool to_copies) {
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
  return parallel_for(chunks_.size(), threads(),
                      [&](std::size_t i, unsigned worker) -> Result<void> {
                        const Chunk& chunk = chunks_[i];
                        if (chunk.is_written || !has_copies(chunk.record->destinations)) {
                          return {};
                        }
                        const MutableBytes values = workers_[worker].decoded(chunk.n_bytes);
                        CFCK_TRY(decode(chunk, workers_[worker], values));
                        copy_part(chunk, values, true);
                        return {};
                      });
}

Result<void> Application::write_chunk(Chunk& chunk, format::ReadWorker& worker) const {
  if (chunk.is_written) {
    return {};
  }
  if (const Destination& first = chunk.record->destinations.front(); first.is_copy) {
    copy_part(chunk, first.out.subspan(chunk.first_byte, chunk.n_bytes), false);
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
  for (const Chunk& chunk : chunks_) {
    if (!chunk.is_written) {
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
  Result<void> written = parallel_for(
      chunks_.size(), threads(),
      [&](std::size_t i, unsigned worker) { return write_chunk(chunks_[i], workers_[worker]); });
  if (!written) {
    // Only memory can have been missing. Decoding takes no more than before, on one thread.
    reserve_.reset();
    for (Chunk& chunk : chunks_) {
      written = run_guarded([&] { return write_chunk(chunk, workers_[0]); });
      if (!written) {
        Error error = std::move(written).error();
        error.message += "; some tensors have their new values already: load all of them again";
        return error;
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

// The tensors as a base.
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
