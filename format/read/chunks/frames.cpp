#include "format/read/chunks/frames.hpp"

#include <zstd.h>

#include <algorithm>

#include "format/container/element_view.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {

bool is_single_frame(ByteView bytes) {
  if (bytes.size() < 4 || load<std::uint32_t>(bytes.data()) != ZSTD_MAGICNUMBER) {
    return false;
  }
  const std::size_t n_bytes = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  const unsigned long long content = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return ZSTD_isError(n_bytes) == 0 && n_bytes == bytes.size() &&
         content != ZSTD_CONTENTSIZE_UNKNOWN && content != ZSTD_CONTENTSIZE_ERROR;
}

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

Result<FramedPayload> payload_in(ByteView extent, const ChunkPlace& place) {
  // The frame says its length without these 8 bytes.
  const std::uint64_t frame_bytes = extent.size() < kFrameHeaderBytes
                                        ? 0
                                        : std::uint64_t{load<std::uint32_t>(extent.data() + 4)} + 8;
  CFCK_TRY(check_frame_header(extent, kChunkTag, frame_bytes, place.offset_bytes));
  if (frame_bytes > extent.size()) {
    return corrupt("the body of a chunk is longer than the chunk", place.offset_bytes);
  }
  const ByteView symbols = extent.subspan(frame_bytes);
  if (!symbols.empty() && !is_single_frame(symbols)) {
    return corrupt("the symbols of a chunk are not a single Zstd frame",
                   place.offset_bytes + frame_bytes);
  }
  return FramedPayload{extent.subspan(kFrameHeaderBytes),
                       static_cast<std::uint32_t>(frame_bytes - kFrameHeaderBytes)};
}

}  // namespace cfck::format
