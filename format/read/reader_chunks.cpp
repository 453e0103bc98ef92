// From a chunk's place in the file to its values.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "codec/entropy/entropy.hpp"
#include "format/container/frame_fields.hpp"
#include "format/read/element_view.hpp"
#include "format/read/open_file.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
namespace {

// Each keeps memory for a chunk or two.
constexpr std::size_t kMaxIdleWorkers = 8;

// One ordinary Zstd frame that says its content size, from the first to the last byte.
bool is_single_frame(ByteView bytes) {
  if (bytes.size() < 4 || load<std::uint32_t>(bytes.data()) != ZSTD_MAGICNUMBER) {
    return false;
  }
  const std::size_t n_bytes = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  const unsigned long long content = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return ZSTD_isError(n_bytes) == 0 && n_bytes == bytes.size() &&
         content != ZSTD_CONTENTSIZE_UNKNOWN && content != ZSTD_CONTENTSIZE_ERROR;
}

struct RawFrame {
  bool starts_here = false;
  std::uint64_t start_bytes = 0;  // header and zeros
  std::uint64_t n_bytes = 0;
};

// Whether the chunk of a raw record is the first of a RAWD frame, and its length.
RawFrame raw_frame_of(const ChunkPlace& place) {
  const Record& record = place.stored->record;
  const std::uint64_t full_bytes = byte_of(record.chunk_elems, bits_per_element(record.dtype));
  const std::uint64_t per_frame = raw_chunks_per_frame(full_bytes);
  if (place.chunk % per_frame != 0) {
    return {};
  }
  const std::uint64_t before_bytes = place.chunk * full_bytes;
  const std::uint64_t data_bytes =
      std::min(per_frame * full_bytes, record.decoded_bytes - before_bytes);
  const std::uint64_t start_bytes = raw_start_bytes(place.offset_bytes);
  return {true, start_bytes, start_bytes + data_bytes};
}

Result<void> check_raw_start(ByteView extent, const ChunkPlace& place, const RawFrame& frame) {
  CFCK_TRY(check_frame_header(extent, kRawTag, frame.n_bytes, place.offset_bytes));
  const ByteView zeros = extent.subspan(kFrameHeaderBytes, frame.start_bytes - kFrameHeaderBytes);
  if (std::ranges::any_of(zeros, [](std::byte b) { return b != std::byte{0}; })) {
    return corrupt("the alignment before a raw record is not zero",
                   place.offset_bytes + kFrameHeaderBytes);
  }
  return {};
}

// Splits the extent of a CHNK frame and what follows it; checks both.
Result<ByteView> payload_of(ByteView extent, const ChunkPlace& place,
                            const codec::Decoder& decoder) {
  const ByteView payload = extent.subspan(kFrameHeaderBytes);
  Result<std::uint32_t> body_bytes = decoder.body_bytes(info_of(place), payload);
  if (!body_bytes) {
    return payload_error(std::move(body_bytes).error(), {}, place.offset_bytes + kFrameHeaderBytes);
  }
  if (*body_bytes > payload.size()) {
    return corrupt("the body of a chunk is longer than the chunk", place.offset_bytes);
  }
  CFCK_TRY(
      check_frame_header(extent, kChunkTag, kFrameHeaderBytes + *body_bytes, place.offset_bytes));
  const ByteView symbols = payload.subspan(*body_bytes);
  if (!symbols.empty() && !is_single_frame(symbols)) {
    return corrupt("the symbols of a chunk are not a single Zstd frame",
                   place.offset_bytes + kFrameHeaderBytes + *body_bytes);
  }
  return payload;
}

Error damaged(const char* what, std::uint64_t offset_bytes) {
  return Error{ErrorCode::kChecksum,
               std::string(what) + " is damaged: its hash does not match",
               {},
               offset_bytes};
}

}  // namespace

Error place_error(Error error, const std::string& record, std::uint64_t offset_bytes) {
  if (error.record.empty()) {
    error.record = record;
  }
  error.byte_offset = offset_bytes + error.byte_offset.value_or(0);
  return error;
}

Error payload_error(Error error, const std::string& record, std::uint64_t offset_bytes) {
  if (error.code == ErrorCode::kTruncated) {
    error.code = ErrorCode::kCorrupt;
  }
  return place_error(std::move(error), record, offset_bytes);
}

codec::ChunkInfo info_of(const ChunkPlace& place) {
  const Record& record = place.stored->record;
  return {record.dtype,
          record.entropy,
          record.scan,
          place.n_elems,
          place.preamble,
          record.shape,
          place.chunk * record.chunk_elems};
}

codec::ChunkInfo info_of_packed(const Record& record) {
  return {record.dtype, record.entropy, record.scan, record.n_elems, {}, record.shape};
}

Result<void> check_readable(const Record& record) {
  const auto missing = [&](const char* what, unsigned id) {
    return Error{ErrorCode::kUnsupported,
                 std::string(what) + " " + std::to_string(id) +
                     " is not known to this version of cfck; use a newer one",
                 record.name,
                 {}};
  };
  if (bits_per_element(record.dtype) == 0) {
    return missing("dtype", static_cast<unsigned>(record.dtype));
  }
  if (record.codec != CodecId::kRaw && codec::find_decoder(record.codec) == nullptr) {
    return missing("codec", static_cast<unsigned>(record.codec));
  }
  if (record.entropy != EntropyId::kNone && !codec::has_entropy_stage(record.entropy)) {
    return missing("entropy stage", static_cast<unsigned>(record.entropy));
  }
  if (record.scan != ScanId::kStorageOrder) {
    return missing("scan order", static_cast<unsigned>(record.scan));
  }
  return {};
}

MutableBytes ReadWorker::Buffer::take(std::size_t n_bytes) {
  if (n_bytes_ < n_bytes) {
    memory_.reset();
    n_bytes_ = 0;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    n_bytes_ = n_bytes;
  }
  return {memory_.get(), n_bytes};
}

WorkerSet::WorkerSet(const OpenFile& file, unsigned n_workers) : file_(file) {
  workers_.reserve(n_workers);
  {
    const std::lock_guard lock(file_.worker_mutex_);
    file_.idle_workers_.reserve(kMaxIdleWorkers);  // the destructor must not fail
    while (workers_.size() < n_workers && !file_.idle_workers_.empty()) {
      workers_.push_back(std::move(file_.idle_workers_.back()));
      file_.idle_workers_.pop_back();
    }
  }
  while (workers_.size() < n_workers) {
    workers_.push_back(std::make_unique<ReadWorker>());
  }
}

WorkerSet::~WorkerSet() {
  const std::lock_guard lock(file_.worker_mutex_);
  for (std::unique_ptr<ReadWorker>& worker : workers_) {
    if (file_.idle_workers_.size() == kMaxIdleWorkers) {
      return;
    }
    file_.idle_workers_.push_back(std::move(worker));
  }
}

Result<void> read_hashed(const ByteSource& source, std::uint64_t offset_bytes, std::uint64_t hash,
                         MutableBytes out) {
  CFCK_TRY(source.read_at(offset_bytes, out));
  if (hash64(out) != hash) {
    return damaged("an extent", offset_bytes);
  }
  return {};
}

ChunkPlace OpenFile::place_of(const StoredRecord& stored, std::uint64_t chunk,
                              std::uint64_t offset_bytes, const std::string& name) const {
  const Record& record = stored.record;
  ChunkPlace place;
  place.stored = &stored;
  place.name = &name;
  place.chunk = chunk;
  place.offset_bytes = offset_bytes;
  const std::uint64_t first = chunk * record.chunk_elems;
  place.n_elems = std::min(record.chunk_elems, record.n_elems - first);
  place.decoded_bytes = byte_of(place.n_elems, bits_per_element(record.dtype));
  return place;
}

const ChunkEntry& OpenFile::entry_of(const ChunkPlace& place) const {
  return index
      .chunks[place.stored->first_chunk + (place.stored->has_preamble ? 1 : 0) + place.chunk];
}

Result<MutableBytes> OpenFile::read_extent(const ChunkPlace& place, bool verify,
                                           ReadWorker& worker) const {
  const ChunkEntry& entry = entry_of(place);
  const MutableBytes extent = worker.stored(entry.n_bytes);
  CFCK_TRY(source->read_at(place.offset_bytes, extent));
  if (verify && hash64(extent) != entry.hash) {
    return damaged("a chunk", place.offset_bytes);
  }
  return extent;
}

Result<ByteView> OpenFile::read_payload(const ChunkPlace& place, bool verify,
                                        ReadWorker& worker) const {
  CFCK_TRY_ASSIGN(const ByteView extent, read_extent(place, verify, worker));
  return payload_of(extent, place, *codec::find_decoder(place.stored->record.codec));
}

Result<void> OpenFile::read_chunk(const ChunkPlace& place, bool verify, ReadWorker& worker,
                                  MutableBytes out) const {
  const auto read = [&]() -> Result<void> {
    const Record& record = place.stored->record;
    if (record.codec == CodecId::kRaw) {
      const RawFrame frame = raw_frame_of(place);
      if (!frame.starts_here) {
        // The values are the extent: hashed where the caller will use them.
        CFCK_TRY(source->read_at(place.offset_bytes, out));
        return verify && hash64(out) != entry_of(place).hash
                   ? Result<void>(damaged("a chunk", place.offset_bytes))
                   : Result<void>();
      }
      CFCK_TRY_ASSIGN(const ByteView extent, read_extent(place, verify, worker));
      CFCK_TRY(check_raw_start(extent, place, frame));
      std::memcpy(out.data(), extent.data() + frame.start_bytes, out.size());
      return {};
    }
    const codec::Decoder& decoder = *codec::find_decoder(record.codec);
    CFCK_TRY_ASSIGN(const ByteView payload, read_payload(place, verify, worker));
    Result<void> decoded = decoder.decode(info_of(place), payload, worker.scratch(), out);
    if (!decoded) {
      return payload_error(std::move(decoded).error(), {}, place.offset_bytes + kFrameHeaderBytes);
    }
    return {};
  };
  Result<void> result = read();
  if (!result) {
    Error error = std::move(result).error();
    error.record = *place.name;
    return error;
  }
  return {};
}

Result<void> OpenFile::check_chunk(const ChunkPlace& place, ReadWorker& worker) const {
  const auto check = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const ByteView extent, read_extent(place, true, worker));
    const Record& record = place.stored->record;
    if (bits_per_element(record.dtype) == 0) {
      return {};  // lengths cannot be known
    }
    if (record.codec == CodecId::kRaw) {
      const RawFrame frame = raw_frame_of(place);
      return frame.starts_here ? check_raw_start(extent, place, frame) : Result<void>();
    }
    if (const codec::Decoder* decoder = codec::find_decoder(record.codec)) {
      CFCK_TRY_ASSIGN([[maybe_unused]] const ByteView payload, payload_of(extent, place, *decoder));
    }
    return {};
  };
  Result<void> result = check();
  if (!result) {
    Error error = std::move(result).error();
    error.record = *place.name;
    return error;
  }
  return {};
}

Result<std::vector<std::byte>> OpenFile::read_preamble(const StoredRecord& stored,
                                                       const std::string& name) const {
  if (!stored.has_preamble) {
    return std::vector<std::byte>();
  }
  const ChunkEntry& entry = index.chunks[stored.first_chunk];
  std::vector<std::byte> frame(entry.n_bytes);
  Result<void> result = read_hashed(*source, stored.offset_bytes, entry.hash, frame);
  if (result) {
    result = check_frame_header(frame, kPreambleTag, frame.size(), stored.offset_bytes);
  }
  if (!result) {
    Error error = std::move(result).error();
    error.record = name;
    return error;
  }
  frame.erase(frame.begin(), frame.begin() + kFrameHeaderBytes);
  return frame;
}

Result<std::shared_ptr<const PackBytes>> OpenFile::load_pack(std::uint32_t pack,
                                                             bool verify) const {
  const PackEntry& entry = index.packs[pack];
  auto bytes = std::make_shared<PackBytes>();
  bytes->number = pack;
  bytes->frame.resize(entry.n_bytes);
  CFCK_TRY(source->read_at(entry.offset_bytes, bytes->frame));
  if (verify && hash64(bytes->frame) != entry.hash) {
    return damaged("a pack of small records", entry.offset_bytes);
  }
  CFCK_TRY(check_frame_header(bytes->frame, kPackTag, entry.n_bytes, entry.offset_bytes));
  return std::shared_ptr<const PackBytes>(std::move(bytes));
}

Result<std::shared_ptr<const PackBytes>> OpenFile::read_pack(std::uint32_t pack) const {
  {
    const std::lock_guard lock(pack_mutex_);
    if (last_pack_ != nullptr && last_pack_->number == pack) {
      return last_pack_;
    }
  }
  CFCK_TRY_ASSIGN(std::shared_ptr<const PackBytes> bytes, load_pack(pack, options.verify_chunks));
  const std::lock_guard lock(pack_mutex_);
  last_pack_ = bytes;
  return bytes;
}

Result<void> OpenFile::decode_packed(const StoredRecord& stored, const std::string& name,
                                     const PackBytes& pack, ReadWorker& worker,
                                     MutableBytes out) const {
  const Record& record = stored.record;
  const ByteView payload = ByteView(pack.frame).subspan(stored.pack_offset, stored.payload_bytes);
  if (record.codec == CodecId::kRaw) {
    std::memcpy(out.data(), payload.data(), out.size());
    return {};
  }
  const codec::Decoder& decoder = *codec::find_decoder(record.codec);
  Result<void> decoded = decoder.decode(info_of_packed(record), payload, worker.scratch(), out);
  if (!decoded) {
    return payload_error(std::move(decoded).error(), name,
                         index.packs[stored.pack].offset_bytes + stored.pack_offset);
  }
  return {};
}

Result<std::vector<std::byte>> OpenFile::read_attachment(const StoredAttachment& attachment,
                                                         bool verify) const {
  const std::uint64_t offset_bytes = attachment.extent.offset_bytes;
  const std::uint64_t asked = options.limits.max_attachment_bytes;
  const std::uint64_t most = asked != 0 ? asked : kMaxAttachmentBytes;
  if (attachment.decoded_bytes > most) {
    return Error{ErrorCode::kLimitExceeded,
                 "the attachment '" + escaped(attachment.name) + "' has " +
                     std::to_string(attachment.decoded_bytes) + " bytes, more than the " +
                     std::to_string(most) +
                     " allowed; raise the limit max_attachment_bytes to read it",
                 {},
                 offset_bytes};
  }
  std::vector<std::byte> frame(attachment.extent.n_bytes);
  CFCK_TRY(source->read_at(offset_bytes, frame));
  if (verify && hash64(frame) != attachment.hash) {
    return damaged("an attachment", offset_bytes);
  }
  if (!is_single_frame(frame) ||
      ZSTD_getFrameContentSize(frame.data(), frame.size()) != attachment.decoded_bytes) {
    return corrupt("an attachment is not a single Zstd frame of the length the file says",
                   offset_bytes);
  }
  std::vector<std::byte> bytes(attachment.decoded_bytes);
  const std::size_t n_bytes =
      ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_getErrorCode(n_bytes) == ZSTD_error_memory_allocation) {
    return out_of_memory();
  }
  if (ZSTD_isError(n_bytes) != 0 || n_bytes != bytes.size()) {
    return corrupt("an attachment cannot be decompressed", offset_bytes);
  }
  return bytes;
}

}  // namespace cfck::format
