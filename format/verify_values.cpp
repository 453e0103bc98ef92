// Every record decoded, and its digest compared.
#include <memory>

#include "base/hashing.hpp"
#include "base/threads.hpp"
#include "format/read_plan.hpp"
#include "format/verify.hpp"

namespace cfck::format {
namespace {

Error wrong_digest(const Record& record) {
  return Error{ErrorCode::kChecksum,
               "the decoded values are not those that were written: the digest does not match",
               record.name,
               {}};
}

// The digest of one record, built while its chunks are finished in order.
struct RecordDigest {
  RecordDigest(std::uint32_t n, const StoredRecord& s, std::vector<std::byte> p)
      : number(n), stored(s), preamble(std::move(p)), builder(s.record.decoded_bytes) {}

  const std::uint32_t number;
  const StoredRecord& stored;
  const std::vector<std::byte> preamble;
  DigestBuilder builder;
  bool damaged = false;
};

struct Shared {
  const OpenFile& file;
  Findings& findings;
  std::vector<ReadWorker> workers;
};

class ChunkJob final : public OrderedPipeline::Job {
 public:
  ChunkJob(Shared& shared, std::shared_ptr<RecordDigest> digest, const ChunkPlace& place)
      : shared_(shared), digest_(std::move(digest)), place_(place) {}

  Result<void> run(unsigned worker) override {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(place_.decoded_bytes);
    const MutableBytes values(memory_.get(), place_.decoded_bytes);
    result_ = shared_.file.read_chunk(place_, true, shared_.workers[worker], values);
    if (result_) {
      edges_ = digest_->builder.hash_whole_leaves(offset_bytes(), values);
    }
    return {};
  }

  Result<void> finish() override {
    const Record& record = digest_->stored.record;
    const std::uint64_t order = 1 + std::uint64_t{digest_->number};
    if (!result_) {
      digest_->damaged = true;
      CFCK_TRY(shared_.findings.add(order, std::move(result_).error()));
    } else if (!digest_->damaged) {
      digest_->builder.add_edge(offset_bytes(), edges_.head);
      digest_->builder.add_edge(offset_bytes() + place_.decoded_bytes - edges_.tail.size(),
                                edges_.tail);
    }
    const bool last = place_.chunk + 1 == record.n_chunks;
    if (last && !digest_->damaged && digest_->builder.finish() != record.digest) {
      CFCK_TRY(shared_.findings.add(order, wrong_digest(record)));
    }
    return shared_.findings.count(shared_.file.entry_of(place_).n_bytes, record.name);
  }

 private:
  std::uint64_t offset_bytes() const {
    const Record& record = place_.stored->record;
    return byte_of(place_.chunk * record.chunk_elems, bits_per_element(record.dtype));
  }

  Shared& shared_;
  std::shared_ptr<RecordDigest> digest_;
  ChunkPlace place_;
  std::unique_ptr<std::byte[]> memory_;
  DigestBuilder::Edges edges_;
  Result<void> result_;
};

// A digest needs 16 bytes of memory for 64 KiB of values: bounded like any other.
Result<void> submit_chunks(Shared& shared, OrderedPipeline& pipeline, std::uint32_t number) {
  const OpenFile& file = shared.file;
  const StoredRecord& stored = file.index.records[number];
  const std::string& name = file.records[number].name;
  const std::uint64_t order = 1 + std::uint64_t{number};
  if (Result<void> allowed = file.check_decoded_bytes(stored.record.decoded_bytes / 4096, name);
      !allowed) {
    return shared.findings.add(order, std::move(allowed).error());
  }
  Result<std::vector<std::byte>> preamble = file.read_preamble(stored, name);
  if (!preamble) {
    return shared.findings.add(order, std::move(preamble).error());
  }
  const auto digest = std::make_shared<RecordDigest>(number, stored, std::move(preamble).value());
  const ChunkEntry* entry =
      file.index.chunks.data() + stored.first_chunk + (stored.has_preamble ? 1 : 0);
  std::uint64_t offset_bytes = stored.offset_bytes;
  if (stored.has_preamble) {
    offset_bytes += file.index.chunks[stored.first_chunk].n_bytes;
  }
  for (std::uint64_t chunk = 0; chunk < stored.record.n_chunks; ++chunk) {
    ChunkPlace place = file.place_of(stored, chunk, offset_bytes, name);
    place.preamble = digest->preamble;
    CFCK_TRY(pipeline.submit(std::make_unique<ChunkJob>(shared, digest, place)));
    offset_bytes += entry[chunk].n_bytes;
  }
  return {};
}

Result<void> check_packed(const OpenFile& file, const StoredRecord& stored, const PackBytes& pack,
                          ReadWorker& worker) {
  const Record& record = stored.record;
  const MutableBytes values = worker.decoded(record.decoded_bytes);
  CFCK_TRY(file.decode_packed(stored, record.name, pack, worker, values));
  if (digest_of(values) != record.digest) {
    return wrong_digest(record);
  }
  return {};
}

Result<void> verify_packs(Shared& shared) {
  const OpenFile& file = shared.file;
  std::vector<std::vector<std::uint32_t>> members(file.index.packs.size());
  for (std::uint32_t i = 0; i < file.index.records.size(); ++i) {
    const StoredRecord& stored = file.index.records[i];
    if (stored.record.kind == RecordKind::kPacked && is_readable(stored.record)) {
      members[stored.pack].push_back(i);
    }
  }
  return parallel_for(
      members.size(), static_cast<unsigned>(shared.workers.size()),
      [&](std::size_t i, unsigned worker) -> Result<void> {
        const auto pack = file.load_pack(static_cast<std::uint32_t>(i), true);
        if (!pack) {
          return {};  // reported with the hashes
        }
        for (const std::uint32_t number : members[i]) {
          Result<void> checked =
              check_packed(file, file.index.records[number], **pack, shared.workers[worker]);
          if (!checked) {
            CFCK_TRY(shared.findings.add(1 + std::uint64_t{number}, std::move(checked).error()));
          }
        }
        return {};
      });
}

Result<void> check_alias(const OpenFile& file, const Record& record) {
  CFCK_TRY(file.check_decoded_bytes(record.decoded_bytes, record.name));
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(record.decoded_bytes);
  const MutableBytes values(memory.get(), record.decoded_bytes);
  const ReadProgress silent;
  ReadPlan plan(file, silent);
  CFCK_TRY(plan.add_whole(record, values));
  CFCK_TRY(plan.run());
  if (digest_of(values) != record.digest) {
    return wrong_digest(record);
  }
  return {};
}

}  // namespace

Result<void> verify_values(const OpenFile& file, Findings& findings) {
  const unsigned threads = resolve_threads(file.options.threads);
  Shared shared{file, findings, std::vector<ReadWorker>(threads)};
  {
    OrderedPipeline pipeline(threads);
    for (std::uint32_t i = 0; i < file.records.size(); ++i) {
      const Record& record = file.records[i];
      const std::uint64_t order = 1 + std::uint64_t{i};
      if (Result<void> readable = check_readable(record); !readable) {
        CFCK_TRY(findings.add(order, std::move(readable).error()));
      } else if (record.n_elems == 0) {
        if (digest_of({}) != record.digest) {
          CFCK_TRY(findings.add(order, wrong_digest(record)));
        }
      } else if (record.kind == RecordKind::kChunked) {
        CFCK_TRY(submit_chunks(shared, pipeline, i));
      }
    }
    CFCK_TRY(pipeline.drain());
  }
  CFCK_TRY(verify_packs(shared));
  for (std::uint32_t i = 0; i < file.records.size(); ++i) {
    const Record& record = file.records[i];
    if (record.kind != RecordKind::kAlias || !is_readable(record)) {
      continue;
    }
    if (Result<void> checked = check_alias(file, record); !checked) {
      CFCK_TRY(findings.add(1 + std::uint64_t{i}, std::move(checked).error()));
    }
  }
  return {};
}

}  // namespace cfck::format
