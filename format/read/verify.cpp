#include "format/read/verify.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hashing/hashing.hpp"
#include "base/threads/threads.hpp"
#include "format/container/frame_walk.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
namespace {

// A unit with a hash. `record` orders the report.
struct Unit {
  enum class Kind : std::uint8_t { kChunk, kPreamble, kPack, kAttachment, kMetadata, kIndex };
  Kind kind;
  std::uint32_t number;  // of the record, pack or attachment
  std::uint64_t chunk = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
};

class HashCheck {
 public:
  HashCheck(const OpenFile& file, VerifyLevel level, Findings& findings)
      : file_(file), level_(level), findings_(findings), pack_members_(file.index.packs.size()) {}

  Result<void> run();

 private:
  // Chunks of a record come one after another: each thread reads their preamble once.
  struct Worker {
    ReadWorker reader;
    std::optional<std::uint32_t> record;             // whose preamble this is
    std::optional<std::vector<std::byte>> preamble;  // none if it is damaged
  };

  void collect_units();
  void collect_chunks(std::uint32_t number);
  Result<void> walk();
  Result<void> check(const Unit& unit, Worker& worker);
  Result<void> check_chunk(const Unit& unit, Worker& worker);
  Result<void> report(const Unit& unit, Error error);

  const OpenFile& file_;
  const VerifyLevel level_;
  Findings& findings_;
  std::vector<Unit> units_;
  std::vector<std::uint64_t> starts_;  // of frames that a walk must meet
  std::vector<std::vector<std::uint32_t>> pack_members_;
};

void HashCheck::collect_chunks(std::uint32_t number) {
  const StoredRecord& stored = file_.index.records[number];
  const Record& record = stored.record;
  const bool decoded_later = level_ == VerifyLevel::kDeep && is_readable(file_, record);
  const ChunkEntry* entry = file_.index.chunks.data() + stored.first_chunk;
  std::uint64_t offset_bytes = stored.offset_bytes;
  const auto take = [&](Unit::Kind kind, std::uint64_t chunk) {
    if (record.codec != CodecId::kRaw || chunk == 0) {
      starts_.push_back(offset_bytes);
    }
    if (kind == Unit::Kind::kPreamble || !decoded_later) {
      units_.push_back({kind, number, chunk, offset_bytes, entry->n_bytes});
    }
    offset_bytes += entry->n_bytes;
    ++entry;
  };
  if (stored.has_preamble) {
    take(Unit::Kind::kPreamble, 0);
  }
  for (std::uint64_t chunk = 0; chunk < record.n_chunks; ++chunk) {
    take(Unit::Kind::kChunk, chunk);
  }
}

void HashCheck::collect_units() {
  for (std::uint32_t i = 0; i < file_.index.records.size(); ++i) {
    const StoredRecord& stored = file_.index.records[i];
    if (stored.record.kind == RecordKind::kChunked) {
      collect_chunks(i);
    } else if (stored.record.kind == RecordKind::kPacked) {
      pack_members_[stored.pack].push_back(i);
    }
  }
  for (std::uint32_t i = 0; i < file_.index.packs.size(); ++i) {
    const PackEntry& pack = file_.index.packs[i];
    starts_.push_back(pack.offset_bytes);
    units_.push_back({Unit::Kind::kPack, i, 0, pack.offset_bytes, pack.n_bytes});
  }
  for (std::uint32_t i = 0; i < file_.metadata.attachments.size(); ++i) {
    const Extent& extent = file_.metadata.attachments[i].extent;
    starts_.push_back(extent.offset_bytes);
    units_.push_back({Unit::Kind::kAttachment, i, 0, extent.offset_bytes, extent.n_bytes});
  }
  const Tail& tail = file_.tail;
  for (const auto& [kind, extent] : {std::pair(Unit::Kind::kMetadata, tail.metadata),
                                     std::pair(Unit::Kind::kIndex, tail.index)}) {
    starts_.push_back(extent.offset_bytes);
    units_.push_back({kind, 0, 0, extent.offset_bytes, extent.n_bytes});
  }
  std::sort(starts_.begin(), starts_.end());
}

// Dead frames only have to be frames; everything live must be met as one.
Result<void> HashCheck::walk() {
  std::size_t next = 0;
  const Result<void> walked = walk_frames(*file_.source, [&](const Frame& frame) -> Result<bool> {
    const std::uint64_t end = frame.offset_bytes + frame.n_bytes;
    if (next < starts_.size() && starts_[next] == frame.offset_bytes) {
      ++next;
    }
    if (next < starts_.size() && starts_[next] < end) {
      return cfck::corrupt("the frame at byte " + std::to_string(frame.offset_bytes) +
                           " covers a part of the file")
          .at_byte(starts_[next]);
    }
    return true;
  });
  return walked ? Result<void>() : findings_.add(0, walked.error());
}

Result<void> HashCheck::report(const Unit& unit, Error error) {
  const std::uint64_t n_records = file_.records.size();
  if (unit.kind == Unit::Kind::kChunk || unit.kind == Unit::Kind::kPreamble) {
    error.record = file_.records[unit.number].name;
    return findings_.add(1 + std::uint64_t{unit.number}, std::move(error));
  }
  if (unit.kind != Unit::Kind::kPack) {
    return findings_.add(1 + n_records, std::move(error));
  }
  for (const std::uint32_t number : pack_members_[unit.number]) {
    error.record = file_.records[number].name;
    CFCK_TRY(findings_.add(1 + std::uint64_t{number}, error));
  }
  return {};
}

// The header of a chunk depends on the preamble. That one may be damaged, which is found
// separately.
Result<void> HashCheck::check_chunk(const Unit& unit, Worker& worker) {
  const StoredRecord& stored = file_.index.records[unit.number];
  const std::string& name = file_.records[unit.number].name;
  ChunkPlace place = file_.place_of(stored, unit.chunk, unit.offset_bytes, name);
  if (!stored.has_preamble) {
    return format::check_chunk(file_, place, worker.reader);
  }
  if (worker.record != unit.number) {
    worker.record = unit.number;
    Result<std::vector<std::byte>> preamble = file_.read_preamble(stored, name);
    worker.preamble.reset();
    if (preamble) {
      worker.preamble = *std::move(preamble);
    }
  }
  if (!worker.preamble) {
    return read_hashed(*file_.source, unit.offset_bytes, file_.entry_of(place).hash,
                       worker.reader.stored(unit.n_bytes));
  }
  place.preamble = *worker.preamble;
  return format::check_chunk(file_, place, worker.reader);
}

Result<void> HashCheck::check(const Unit& unit, Worker& worker) {
  const std::string no_name;
  const bool of_record = unit.kind == Unit::Kind::kChunk || unit.kind == Unit::Kind::kPreamble;
  const std::string& name = of_record ? file_.records[unit.number].name : no_name;
  const auto checked = [&]() -> Result<void> {
    switch (unit.kind) {
      case Unit::Kind::kChunk:
        return check_chunk(unit, worker);
      case Unit::Kind::kPreamble:
        CFCK_TRY(file_.read_preamble(file_.index.records[unit.number], name));
        return {};
      case Unit::Kind::kPack:
        CFCK_TRY(file_.load_pack(unit.number, true));
        return {};
      case Unit::Kind::kAttachment:
        CFCK_TRY(file_.read_attachment(file_.metadata.attachments[unit.number], true));
        return {};
      case Unit::Kind::kMetadata:
      case Unit::Kind::kIndex:
        break;
    }
    const bool is_index = unit.kind == Unit::Kind::kIndex;
    const MutableBytes bytes = worker.reader.stored(unit.n_bytes);
    CFCK_TRY(file_.source->read_at(unit.offset_bytes, bytes));
    if (hash128(bytes) != (is_index ? file_.tail.index_hash : file_.tail.metadata_hash)) {
      return wrong_checksum("index or metadata changed since the file was opened")
          .at_byte(unit.offset_bytes);
    }
    return {};
  };
  Result<void> result = checked();
  if (!result) {
    CFCK_TRY(report(unit, std::move(result).error()));
  }
  return findings_.count(unit.n_bytes, name);
}

Result<void> HashCheck::run() {
  collect_units();
  CFCK_TRY(walk());
  CFCK_TRY(findings_.count(kHeadBytes + kTailBytes + file_.dead_bytes, {}));
  const unsigned threads = resolve_threads(file_.options.threads);
  std::vector<Worker> workers(threads);
  return parallel_for(units_.size(), threads, [&](std::size_t i, unsigned worker) {
    return check(units_[i], workers[worker]);
  });
}

}  // namespace

Result<void> Findings::add(std::uint64_t order, Error error) {
  if (error.code == ErrorCode::kOutOfMemory || error.code == ErrorCode::kInternal) {
    return error;
  }
  const std::lock_guard lock(mutex_);
  problems_.emplace_back(order, std::move(error));
  return {};
}

Result<void> Findings::count(std::uint64_t n_bytes, const std::string& name) {
  return progress_.advance(n_bytes, name);
}

VerifyReport Findings::take_report(std::uint64_t n_records) {
  std::stable_sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
    const auto offset = [](const Error& error) { return error.byte_offset.value_or(0); };
    return a.first != b.first ? a.first < b.first : offset(a.second) < offset(b.second);
  });
  VerifyReport report;
  report.n_records = n_records;
  report.checked_bytes = progress_.done_bytes();
  for (auto& [order, error] : problems_) {
    report.problems.push_back(std::move(error));
  }
  return report;
}

bool is_readable(const OpenFile& file, const Record& record) {
  return check_readable(record).has_value() && file.check_base(file.base_of(record)).has_value();
}

Result<VerifyReport> verify_file(const OpenFile& file, VerifyLevel level,
                                 const ReadProgress& progress) {
  Findings findings(progress);
  CFCK_TRY(HashCheck(file, level, findings).run());
  if (level == VerifyLevel::kDeep) {
    CFCK_TRY(verify_values(file, findings));
  }
  return findings.take_report(file.records.size());
}

}  // namespace cfck::format
