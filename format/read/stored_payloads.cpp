#include "format/read/stored_payloads.hpp"

#include "base/run_guarded.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
namespace {

Result<void> take_one(const StoredPayload& stored, const std::string& name,
                      std::uint64_t offset_bytes, ReadWorker& worker, const TakePayload& take) {
  Result<void> taken = take(stored, worker.scratch());
  return taken ? Result<void>() : payload_error(std::move(taken).error(), name, offset_bytes);
}

Result<std::uint64_t> each_chunk(const OpenFile& file, const StoredRecord& stored,
                                 ReadWorker& worker, const TakePayload& take) {
  const std::string& name = stored.record.name;
  CFCK_TRY_ASSIGN(const std::vector<std::byte> preamble, file.read_preamble(stored, name));
  const std::uint64_t preamble_bytes =
      stored.has_preamble ? file.index.chunks[stored.first_chunk].n_bytes : 0;
  std::uint64_t offset_bytes = stored.offset_bytes + preamble_bytes;
  for (std::uint64_t chunk = 0; chunk < stored.record.n_chunks; ++chunk) {
    ChunkPlace place = file.place_of(stored, chunk, offset_bytes, name);
    place.preamble = preamble;
    const std::uint64_t stored_bytes = file.entry_of(place).n_bytes;
    CFCK_TRY_ASSIGN(const ByteView payload,
                    fetch_payload(file, place, Verify{file.options.verify_chunks}, worker));
    CFCK_TRY(take_one({info_of(place), payload, stored_bytes}, name,
                      offset_bytes + kFrameHeaderBytes, worker, take));
    offset_bytes += stored_bytes;
  }
  return preamble_bytes;
}

}  // namespace

Result<std::uint64_t> each_payload(const Reader& reader, const Record& record,
                                   const TakePayload& take) {
  return run_guarded([&]() -> Result<std::uint64_t> {
    CFCK_TRY(check_open(reader));
    const OpenFile& file = ReaderAccess::file(reader);
    CFCK_TRY_ASSIGN(const Record* const own, file.own(record));
    CFCK_TRY(check_readable(*own));
    const StoredRecord& stored = file.base_of(*own);
    WorkerSet workers(file.idle_workers(), 1);
    if (stored.record.kind != RecordKind::kPacked) {
      return each_chunk(file, stored, workers[0], take);
    }
    CFCK_TRY_ASSIGN(const std::shared_ptr<const PackBytes> pack, file.read_pack(stored.pack));
    const ByteView payload =
        ByteView(pack->frame).subspan(stored.pack_offset, stored.payload_bytes);
    CFCK_TRY(take_one({info_of_packed(stored.record), payload, stored.payload_bytes}, record.name,
                      file.index.packs[stored.pack].offset_bytes + stored.pack_offset, workers[0],
                      take));
    return std::uint64_t{0};
  });
}

}  // namespace cfck::format
