#include "format/read/chunk_batch.hpp"

#include <cstring>
#include <utility>

#include "format/container/frame_fields.hpp"
#include "format/read/chunk_frames.hpp"

namespace cfck::format {
namespace {

constexpr const char* kChunk = "a chunk";

// Reads an extent into memory of the worker.
Result<ByteView> fetch_extent(const OpenFile& file, const ChunkPlace& place, Verify verify,
                              ReadWorker& worker, std::size_t number) {
  const ChunkEntry& entry = file.entry_of(place);
  const MutableBytes extent = worker.stored(number, entry.n_bytes);
  CFCK_TRY(
      ExtentFetcher(*file.source).fetch(place.offset_bytes, entry.hash, kChunk, verify, extent));
  return ByteView(extent);
}

// The task of a chunk with a codec; its payload is in `extent`.
Result<codec::ChunkTask> task_of(const ChunkPlace& place, const codec::Decoder& decoder,
                                 ByteView extent) {
  CFCK_TRY_ASSIGN(const FramedPayload payload, payload_in(extent, place));
  codec::ChunkTask task;
  task.decoder = &decoder;
  task.info = info_of(place);
  task.payload = payload.bytes;
  task.body_bytes = payload.body_bytes;
  return task;
}

std::uint64_t payload_offset(const ChunkPlace& place) {
  return place.offset_bytes + kFrameHeaderBytes;
}

Result<void> with_record(Result<void> result, const std::string& record) {
  return result ? std::move(result)
                : Result<void>(std::move(result).error().in_record(std::string(record)));
}

// The errors of check_body(), as those of the file.
Result<void> check_framed_body(const ChunkPlace& place, const codec::ChunkTask& task) {
  Result<void> checked = codec::check_body(task);
  return checked ? std::move(checked)
                 : payload_error(std::move(checked).error(), {}, payload_offset(place));
}

}  // namespace

Result<void> ChunkBatch::add(const ChunkPlace& place, MutableBytes out) {
  const bool is_raw = place.stored->record.codec == CodecId::kRaw;
  return with_record(is_raw ? add_raw(place, out) : add_coded(place, out), *place.name);
}

Result<void> ChunkBatch::add_raw(const ChunkPlace& place, MutableBytes out) {
  const RawFrame frame = raw_frame_of(place);
  if (!frame.starts_here) {
    // The values are the extent itself: they are hashed where the caller will use them.
    return ExtentFetcher(*file_.source)
        .fetch(place.offset_bytes, file_.entry_of(place).hash, kChunk, verify_, out);
  }
  std::vector<codec::ChunkTask>& tasks = worker_.tasks();
  CFCK_TRY_ASSIGN(const ByteView extent,
                  fetch_extent(file_, place, verify_, worker_, tasks.size()));
  CFCK_TRY(check_raw_start(extent, place, frame));
  codec::ChunkTask& task = tasks.emplace_back();
  task.payload = extent.subspan(frame.start_bytes);
  task.out = out;
  worker_.origins().push_back({place.name, place.offset_bytes + frame.start_bytes});
  return {};
}

Result<void> ChunkBatch::add_coded(const ChunkPlace& place, MutableBytes out) {
  std::vector<codec::ChunkTask>& tasks = worker_.tasks();
  CFCK_TRY_ASSIGN(const ByteView extent,
                  fetch_extent(file_, place, verify_, worker_, tasks.size()));
  const codec::Decoder& decoder = *codec::find_decoder(place.stored->record.codec);
  CFCK_TRY_ASSIGN(codec::ChunkTask task, task_of(place, decoder, extent));
  task.out = out;
  tasks.push_back(std::move(task));
  worker_.origins().push_back({place.name, payload_offset(place)});
  return {};
}

void ChunkBatch::add_packed(const StoredRecord& stored, const std::string& name,
                            const PackBytes& pack, MutableBytes out) {
  const Record& record = stored.record;
  codec::ChunkTask& task = worker_.tasks().emplace_back();
  if (record.codec != CodecId::kRaw) {
    task.decoder = codec::find_decoder(record.codec);
  }
  task.info = info_of_packed(record);
  task.payload = ByteView(pack.frame).subspan(stored.pack_offset, stored.payload_bytes);
  task.out = out;
  worker_.origins().push_back(
      {&name, file_.index.packs[stored.pack].offset_bytes + stored.pack_offset});
}

Result<void> ChunkBatch::decode() {
  std::vector<codec::ChunkTask>& tasks = worker_.tasks();
  worker_.executor().decode(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].result) {
      const ChunkOrigin& origin = worker_.origins()[i];
      return payload_error(std::move(tasks[i].result).error(), *origin.record,
                           origin.payload_offset);
    }
  }
  return {};
}

Result<void> decode_chunk(const OpenFile& file, const ChunkPlace& place, Verify verify,
                          ReadWorker& worker, MutableBytes out) {
  ChunkBatch batch(file, verify, worker);
  CFCK_TRY(batch.add(place, out));
  return batch.decode();
}

Result<void> decode_packed(const OpenFile& file, const StoredRecord& stored,
                           const std::string& name, const PackBytes& pack, ReadWorker& worker,
                           MutableBytes out) {
  ChunkBatch batch(file, Verify::kYes, worker);
  batch.add_packed(stored, name, pack, out);
  return batch.decode();
}

Result<void> check_chunk(const OpenFile& file, const ChunkPlace& place, ReadWorker& worker) {
  const auto check = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, Verify::kYes, worker, 0));
    const Record& record = place.stored->record;
    if (bits_per_element(record.dtype) == 0) {
      return {};  // lengths cannot be known
    }
    if (record.codec == CodecId::kRaw) {
      const RawFrame frame = raw_frame_of(place);
      return frame.starts_here ? check_raw_start(extent, place, frame) : Result<void>();
    }
    if (const codec::Decoder* decoder = codec::find_decoder(record.codec)) {
      CFCK_TRY_ASSIGN(const codec::ChunkTask task, task_of(place, *decoder, extent));
      return check_framed_body(place, task);
    }
    return {};
  };
  return with_record(check(), *place.name);
}

Result<ByteView> fetch_payload(const OpenFile& file, const ChunkPlace& place, Verify verify,
                               ReadWorker& worker) {
  const auto fetch = [&]() -> Result<ByteView> {
    CFCK_TRY_ASSIGN(const ByteView extent, fetch_extent(file, place, verify, worker, 0));
    const codec::Decoder& decoder = *codec::find_decoder(place.stored->record.codec);
    CFCK_TRY_ASSIGN(const codec::ChunkTask task, task_of(place, decoder, extent));
    CFCK_TRY(check_framed_body(place, task));
    return task.payload;
  };
  Result<ByteView> payload = fetch();
  if (!payload) {
    return std::move(payload).error().in_record(*place.name);
  }
  return payload;
}

}  // namespace cfck::format
