// Decodes every record, and compares its digest.
#include <algorithm>
#include <memory>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "base/threads/threads.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/plan.hpp"
#include "format/read/verify.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kVerifiedPieceBytes = std::uint64_t{1} << 23;

Error wrong_digest(const Record& record) {
  return wrong_checksum(
             "the decoded values differ from those that were written: the digest does not match")
      .in_record(record.name);
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

std::uint64_t offset_of(const ChunkPlace& place) {
  const Record& record = place.stored->record;
  return byte_of(place.chunk * record.chunk_elems, bits_per_element(record.dtype));
}

// A worker found this in a chunk.
struct DecodedChunk {
  Result<void> result;
  std::unique_ptr<std::byte[]> memory;  // of the values, parts of which are `edges`
  DigestBuilder::Edges edges;
};

Result<DecodedChunk> decode(Shared& shared, RecordDigest& digest, const ChunkPlace& place,
                            unsigned worker) {
  DecodedChunk decoded;
  decoded.memory = std::make_unique_for_overwrite<std::byte[]>(place.decoded_bytes);
  const MutableBytes values(decoded.memory.get(), place.decoded_bytes);
  decoded.result = decode_chunk(shared.file, place, Verify::kYes, shared.workers[worker], values);
  if (decoded.result) {
    decoded.edges = digest.builder.hash_whole_leaves(offset_of(place), values);
  }
  return decoded;
}

Result<void> add_chunk(Shared& shared, RecordDigest& digest, const ChunkPlace& place,
                       DecodedChunk decoded) {
  const Record& record = digest.stored.record;
  const std::uint64_t order = 1 + std::uint64_t{digest.number};
  if (!decoded.result) {
    digest.damaged = true;
    CFCK_TRY(shared.findings.add(order, std::move(decoded.result).error()));
  } else if (!digest.damaged) {
    const DigestBuilder::Edges& edges = decoded.edges;
    digest.builder.add_edge(offset_of(place), edges.head);
    digest.builder.add_edge(offset_of(place) + place.decoded_bytes - edges.tail.size(), edges.tail);
  }
  const bool last = place.chunk + 1 == record.n_chunks;
  if (last && !digest.damaged && digest.builder.finish() != record.digest) {
    CFCK_TRY(shared.findings.add(order, wrong_digest(record)));
  }
  return shared.findings.count(shared.file.entry_of(place).n_bytes, record.name);
}

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
  const auto digest = std::make_shared<RecordDigest>(number, stored, *std::move(preamble));
  const ChunkEntry* entry =
      file.index.chunks.data() + stored.first_chunk + (stored.has_preamble ? 1 : 0);
  std::uint64_t offset_bytes = stored.offset_bytes;
  if (stored.has_preamble) {
    offset_bytes += file.index.chunks[stored.first_chunk].n_bytes;
  }
  for (std::uint64_t chunk = 0; chunk < stored.record.n_chunks; ++chunk) {
    ChunkPlace place = file.place_of(stored, chunk, offset_bytes, name);
    place.preamble = digest->preamble;
    CFCK_TRY(
        pipeline.submit([&shared, digest,
                         place](unsigned worker) { return decode(shared, *digest, place, worker); },
                        [&shared, digest, place](DecodedChunk decoded) {
                          return add_chunk(shared, *digest, place, std::move(decoded));
                        }));
    offset_bytes += entry[chunk].n_bytes;
  }
  return {};
}

Result<void> check_packed(const OpenFile& file, const StoredRecord& stored, const PackBytes& pack,
                          ReadWorker& worker) {
  const Record& record = stored.record;
  const MutableBytes values = worker.decoded(record.decoded_bytes);
  CFCK_TRY(decode_packed(file, stored, record.name, pack, worker, values));
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
    if (stored.record.kind == RecordKind::kPacked && is_readable(file, stored.record)) {
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

// The part of the base that has all elements of an alias, decoded.
struct BaseRange {
  std::uint64_t first_elem = 0;
  std::unique_ptr<std::byte[]> memory;
  std::uint64_t n_bytes = 0;
};

Result<BaseRange> read_base(const OpenFile& file, const Record& record, const ElementView& view) {
  const StoredRecord& stored = file.base_of(record);
  BaseRange range;
  // The range is on whole bytes, whatever the dtype: eight elements always are.
  range.first_elem = view.lowest(0) / 8 * 8;
  const std::uint64_t end =
      std::min(stored.record.n_elems, view.highest(record.n_elems - 1) / 8 * 8 + 8);
  const std::uint64_t n_elems = end - range.first_elem;
  range.n_bytes = byte_of(n_elems, bits_per_element(record.dtype));
  CFCK_TRY(file.check_decoded_bytes(range.n_bytes, record.name));
  range.memory = std::make_unique_for_overwrite<std::byte[]>(range.n_bytes);
  const ReadProgress silent;
  ReadPlan plan(file, silent);
  CFCK_TRY(plan.wanted().add({&record,
                              &stored,
                              ElementView(range.first_elem, n_elems),
                              0,
                              n_elems,
                              {range.memory.get(), range.n_bytes}}));
  CFCK_TRY(plan.run());
  return range;
}

// Works piece by piece: an alias may have many more elements than its base.
Result<void> check_alias(const OpenFile& file, const Record& record) {
  const unsigned bits = bits_per_element(record.dtype);
  const ElementView view = view_of(record);
  const bool by_chunks = view.increasing() && view.whole_bytes(bits);
  BaseRange base;
  if (!by_chunks) {
    CFCK_TRY_ASSIGN(base, read_base(file, record, view));
  }
  const std::uint64_t piece_elems = std::min(record.n_elems, kVerifiedPieceBytes / bits * 8);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(byte_of(piece_elems, bits));
  DigestBuilder builder(record.decoded_bytes);
  for (std::uint64_t first = 0; first < record.n_elems; first += piece_elems) {
    const std::uint64_t n_elems = std::min(piece_elems, record.n_elems - first);
    const MutableBytes values(memory.get(), byte_of(n_elems, bits));
    if (by_chunks) {
      const ReadProgress silent;
      ReadPlan plan(file, silent);
      CFCK_TRY(plan.wanted().add({&record, &file.base_of(record), view, first, n_elems, values}));
      CFCK_TRY(plan.run());
    } else {
      view.gather(values, ByteView(base.memory.get(), base.n_bytes), base.first_elem, first,
                  n_elems, bits);
    }
    const std::uint64_t offset_bytes = byte_of(first, bits);
    const DigestBuilder::Edges edges = builder.hash_whole_leaves(offset_bytes, values);
    builder.add_edge(offset_bytes, edges.head);
    builder.add_edge(offset_bytes + values.size() - edges.tail.size(), edges.tail);
  }
  return builder.finish() == record.digest ? Result<void>() : wrong_digest(record);
}

// A few bytes of the index may be an alias of very many elements, all of which its digest covers:
// all together may have what one call may return.
Result<void> verify_aliases(const OpenFile& file, Findings& findings) {
  std::uint64_t total_bytes = 0;
  for (std::uint32_t i = 0; i < file.records.size(); ++i) {
    const Record& record = file.records[i];
    if (record.kind != RecordKind::kAlias || !is_readable(file, record)) {
      continue;
    }
    std::uint64_t wanted_bytes = 0;
    if (!checked_add(total_bytes, record.decoded_bytes, wanted_bytes)) {
      wanted_bytes = ~std::uint64_t{0};
    }
    Result<void> checked = file.check_decoded_bytes(wanted_bytes, record.name);
    if (checked) {
      total_bytes = wanted_bytes;
      checked = check_alias(file, record);
    }
    if (!checked) {
      CFCK_TRY(findings.add(1 + std::uint64_t{i}, std::move(checked).error()));
    }
    CFCK_TRY(findings.count(0, record.name));
  }
  return {};
}

// Returns whether a record can be decoded; reports why not, but for a missing base, which is
// reported once for all.
Result<bool> check_decodable(const OpenFile& file, const Record& record, Findings& findings) {
  Result<void> checked = check_readable(record);
  const StoredRecord& stored = file.index.records[record.index];
  if (checked && !(file.base_missing && stored.record.base_digest)) {
    checked = file.check_base(stored);
  }
  if (!checked) {
    CFCK_TRY(findings.add(1 + std::uint64_t{record.index}, std::move(checked).error()));
    return false;
  }
  return !(file.base_missing && stored.record.base_digest);
}

}  // namespace

Result<void> verify_values(const OpenFile& file, Findings& findings) {
  const unsigned threads = resolve_threads(file.options.threads);
  Shared shared{file, findings, std::vector<ReadWorker>(threads)};
  if (file.base_missing) {
    CFCK_TRY(findings.add(0, *file.base_missing));
  }
  {
    OrderedPipeline pipeline(threads);
    for (std::uint32_t i = 0; i < file.records.size(); ++i) {
      const Record& record = file.records[i];
      CFCK_TRY_ASSIGN(const bool is_decodable, check_decodable(file, record, findings));
      if (!is_decodable) {
        continue;
      }
      if (record.n_elems == 0) {
        if (digest_of({}) != record.digest) {
          CFCK_TRY(findings.add(1 + std::uint64_t{i}, wrong_digest(record)));
        }
      } else if (record.kind == RecordKind::kChunked) {
        CFCK_TRY(submit_chunks(shared, pipeline, i));
      }
    }
    CFCK_TRY(pipeline.drain());
  }
  CFCK_TRY(verify_packs(shared));
  return verify_aliases(file, findings);
}

}  // namespace cfck::format
