#include "format/container/index/compressed_index.hpp"

#include <zstd.h>

#include <string>
#include <utility>

#include "codec/entropy/zstd/byte_frame.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

// Returns the frame with plain tables. Offsets of errors count from its start in the file.
Result<std::vector<std::byte>> decompress(ByteView frame, const Limits& limits) {
  const ByteView packed = frame.subspan(kFrameHeaderBytes);
  const unsigned long long n_bytes = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (n_bytes == ZSTD_CONTENTSIZE_ERROR || n_bytes == ZSTD_CONTENTSIZE_UNKNOWN) {
    return cfck::corrupt("it is not a Zstd frame that says its length");
  }
  if (n_bytes > kMaxCompressedTables) {
    return cfck::corrupt("it stands for " + std::to_string(n_bytes) + " bytes; at most " +
                         std::to_string(kMaxCompressedTables) + " are allowed");
  }
  if (limits.max_index_bytes != 0 && n_bytes > limits.max_index_bytes) {
    return limit_exceeded("it stands for " + std::to_string(n_bytes) + " bytes, more than the " +
                          std::to_string(limits.max_index_bytes) +
                          " allowed; raise the limit max_index_bytes to read it");
  }
  std::vector<std::byte> plain(kFrameHeaderBytes + n_bytes);
  store_frame_header(plain.data(), kIndexTag, plain.size());
  codec::Scratch scratch;
  CFCK_TRY(
      codec::decompress_frame(packed, scratch, MutableBytes(plain).subspan(kFrameHeaderBytes)));
  return plain;
}

Result<Index> decode_plain_or_packed(const Tail& tail, ByteView frame, const Limits& limits) {
  const std::uint64_t offset_bytes = tail.index.offset_bytes;
  if ((tail.required_features & kCompressedIndex) == 0) {
    return decode_index(frame, offset_bytes, limits);
  }
  CFCK_TRY(check_frame_header(frame, kIndexTag, frame.size(), offset_bytes));
  auto plain = decompress(frame, limits);
  auto index = plain ? decode_index(*plain, 0, limits) : Result<Index>(std::move(plain).error());
  if (index) return index;
  Error error = std::move(index).error();
  // The file is not.
  if (error.code == ErrorCode::kTruncated) error.code = ErrorCode::kCorrupt;
  error.message = "the compressed index: " + error.message;
  error.byte_offset = offset_bytes + kFrameHeaderBytes;
  return error;
}

}  // namespace

Result<Index> decode_index_of(const Tail& tail, ByteView frame, const Limits& limits) {
  CFCK_TRY_ASSIGN(Index index, decode_plain_or_packed(tail, frame, limits));
  if (needs_base(index) != ((tail.required_features & kHasBase) != 0)) {
    return corrupt("index and tail contradict each other about a base", tail.index.offset_bytes);
  }
  return index;
}

}  // namespace cfck::format
