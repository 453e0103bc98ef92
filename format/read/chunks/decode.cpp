#include "format/read/chunks/decode.hpp"

#include <utility>

#include "codec/decode_job.hpp"
#include "format/container/element_view.hpp"
#include "format/container/frame_fields.hpp"
#include "format/read/chunks/frames.hpp"

namespace cfck::format {
namespace {

constexpr const char* kWhatIsRead = "a chunk";

// Reads an extent into memory of the worker.
Result<ByteView> fetch_extent(const OpenFile& file, const ChunkPlace& place, Verify verify,
                              ReadWorker& worker) {
  const ChunkEntry& entry = file.entry_of(place);
  const MutableBytes extent = worker.stored(entry.n_bytes);
  CFCK_TRY(ExtentFetcher(*file.source)
               .fetch(place.offset_bytes, entry.hash, kWhatIsRead, verify, extent));
  return ByteView(extent);
}

// The job of a chunk with a codec that is known; its payload is in `extent`.
Result<codec::DecodeJob> job_of(const ChunkPlace& place, ByteView extent) {
  CFCK_TRY_ASSIGN(const FramedPayload payload, payload_in(extent, place));
  codec::DecodeJob job;
  job.decoder = codec::find_decoder(place.stored->record.codec);
  job.info = info_of(place);
  job.payload = payload.bytes;
  job.body_bytes = payload.body_bytes;
  return job;
}

// The errors of a payload, as those of the file.
Result<void> of_payload(Result<void> result, const std::string& name, std::uint64_t offset_bytes) {
  return result ? std::move(result)
                : Result<void>(payload_error(std::move(result).error(), name, offset_bytes));
}

Result<void> with_record(Result<void> result, const std::string& record) {
  return result ? std::move(result)
                : Result<void>(std::move(result).error().in_record(std::string(record)));
}

Result<void> check_framed_body(const ChunkPlace& place, const codec::DecodeJob& job) {
  return of_payload(codec::check_body(job), *place.name, place.offset_bytes + kFrameHeaderBytes);
}

Result<void> decode_raw(const OpenFile& file, const ChunkPlace& place, Verify verify,
                        ReadWorker& worker, MutableBytes out) {
  const RawFrame frame = raw_frame_of(place);
  if (!frame.starts_here) {
    // The values are the extent itself: they are hashed where the caller will use them.
    return ExtentFetcher(*file.source)
        .fetch(place.offset_bytes, file.entry_of(place).hash, kWhatIsRead, verify, out);
  }
  CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, verify, worker));
  CFCK_TRY(check_raw_start(extent, place, frame));
  codec::DecodeJob job;
  job.payload = extent.subspan(frame.start_bytes);
  job.out = out;
  return codec::decode(job, worker.scratch());
}

// Returns the values that elements of a record have in the base, from `first_elem` on: in place, or
// in `memory`, which has their length. Empty where the record is not stored against one.
Result<ByteView> base_values(const OpenFile& file, const Record& record, std::uint64_t first_elem,
                             MutableBytes memory) {
  if (!record.base_digest) {
    return ByteView();
  }
  const BaseTensor* const tensor = file.base == nullptr ? nullptr : file.base->find(record.name);
  if (tensor == nullptr) {
    return Error(file.base_missing.value_or(missing_base("the base is missing")));
  }
  const std::uint64_t offset_bytes = byte_of(first_elem, bits_per_element(record.dtype));
  const ByteView in_place = file.base->in_place(*tensor);
  if (!in_place.empty()) {
    return in_place.subspan(offset_bytes, memory.size());
  }
  CFCK_TRY(file.base->read(*tensor, offset_bytes, memory));
  return ByteView(memory);
}

Result<void> decode_coded(const OpenFile& file, const ChunkPlace& place, Verify verify,
                          ReadWorker& worker, MutableBytes out, codec::ChangeLog* changes) {
  const Record& record = place.stored->record;
  CFCK_TRY_ASSIGN(const ByteView base,
                  base_values(file, record, place.chunk * record.chunk_elems, out));
  CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, verify, worker));
  CFCK_TRY_ASSIGN(codec::DecodeJob job, job_of(place, extent));
  job.info.base = base;
  job.info.changes = changes;
  job.out = out;
  return of_payload(codec::decode(job, worker.scratch()), *place.name,
                    place.offset_bytes + kFrameHeaderBytes);
}

}  // namespace

Result<void> decode_chunk(const OpenFile& file, const ChunkPlace& place, Verify verify,
                          ReadWorker& worker, MutableBytes out, codec::ChangeLog* changes) {
  const bool is_raw = place.stored->record.codec == CodecId::kRaw;
  return with_record(is_raw ? decode_raw(file, place, verify, worker, out)
                            : decode_coded(file, place, verify, worker, out, changes),
                     *place.name);
}

Result<void> decode_packed(const OpenFile& file, const StoredRecord& stored,
                           const std::string& name, const PackBytes& pack, ReadWorker& worker,
                           MutableBytes out, codec::ChangeLog* changes) {
  const Record& record = stored.record;
  codec::DecodeJob job;
  if (record.codec != CodecId::kRaw) {
    job.decoder = codec::find_decoder(record.codec);
  }
  job.info = info_of_packed(record);
  Result<ByteView> base = base_values(file, record, 0, out);
  if (!base) {
    return std::move(base).error().in_record(std::string(name));
  }
  job.info.base = *base;
  job.info.changes = changes;
  job.payload = ByteView(pack.frame).subspan(stored.pack_offset, stored.payload_bytes);
  job.out = out;
  return of_payload(codec::decode(job, worker.scratch()), name,
                    file.index.packs[stored.pack].offset_bytes + stored.pack_offset);
}

Result<void> check_chunk(const OpenFile& file, const ChunkPlace& place, ReadWorker& worker) {
  const auto check = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, Verify::kYes, worker));
    const Record& record = place.stored->record;
    if (bits_per_element(record.dtype) == 0) {
      return {};  // lengths cannot be known
    }
    if (record.codec == CodecId::kRaw) {
      const RawFrame frame = raw_frame_of(place);
      return frame.starts_here ? check_raw_start(extent, place, frame) : Result<void>();
    }
    if (codec::find_decoder(record.codec) != nullptr) {
      CFCK_TRY_ASSIGN(const codec::DecodeJob job, job_of(place, extent));
      return check_framed_body(place, job);
    }
    return {};
  };
  return with_record(check(), *place.name);
}

Result<ByteView> fetch_payload(const OpenFile& file, const ChunkPlace& place, Verify verify,
                               ReadWorker& worker) {
  const auto fetch = [&]() -> Result<ByteView> {
    CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, verify, worker));
    CFCK_TRY_ASSIGN(const codec::DecodeJob job, job_of(place, extent));
    CFCK_TRY(check_framed_body(place, job));
    return job.payload;
  };
  Result<ByteView> payload = fetch();
  if (!payload) {
    return std::move(payload).error().in_record(*place.name);
  }
  return payload;
}

}  // namespace cfck::format
