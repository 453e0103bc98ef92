// Where chunks are, and the parts of a file that are no chunks: preambles, packs, attachments.
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "codec/entropy/entropy.hpp"
#include "format/container/element_view.hpp"
#include "format/container/frame_fields.hpp"
#include "format/read/chunks/extent_fetcher.hpp"
#include "format/read/chunks/frames.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
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
    return unsupported(std::string(what) + " " + std::to_string(id) +
                       " is unknown to this version of cfck; use a newer one")
        .in_record(record.name);
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
  CFCK_TRY(ExtentFetcher(*source).fetch(entry.offset_bytes, entry.hash, "a pack of small records",
                                        Verify{verify}, bytes->frame));
  CFCK_TRY(check_frame_header(bytes->frame, kPackTag, entry.n_bytes, entry.offset_bytes));
  return std::shared_ptr<const PackBytes>(std::move(bytes));
}

Result<std::shared_ptr<const PackBytes>> OpenFile::read_pack(std::uint32_t pack) const {
  {
    const auto last = last_pack_.lock();
    if (*last != nullptr && (*last)->number == pack) {
      return *last;
    }
  }
  CFCK_TRY_ASSIGN(std::shared_ptr<const PackBytes> bytes, load_pack(pack, options.verify_chunks));
  *last_pack_.lock() = bytes;
  return bytes;
}

Result<std::vector<std::byte>> OpenFile::read_attachment(const StoredAttachment& attachment,
                                                         bool verify) const {
  const std::uint64_t offset_bytes = attachment.extent.offset_bytes;
  const std::uint64_t asked = options.limits.max_attachment_bytes;
  const std::uint64_t most = asked != 0 ? asked : kMaxAttachmentBytes;
  if (attachment.decoded_bytes > most) {
    return limit_exceeded("the attachment '" + escaped(attachment.name) + "' has " +
                          std::to_string(attachment.decoded_bytes) + " bytes, more than the " +
                          std::to_string(most) +
                          " allowed; raise the limit max_attachment_bytes to read it")
        .at_byte(offset_bytes);
  }
  std::vector<std::byte> frame(attachment.extent.n_bytes);
  CFCK_TRY(ExtentFetcher(*source).fetch(offset_bytes, attachment.hash, "an attachment",
                                        Verify{verify}, frame));
  if (!is_single_frame(frame) ||
      ZSTD_getFrameContentSize(frame.data(), frame.size()) != attachment.decoded_bytes) {
    return corrupt("an attachment is not a single Zstd frame of the stated length", offset_bytes);
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
