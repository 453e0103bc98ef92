#include <cstring>
#include <new>

#include "base/forks/forks.hpp"
#include "codec/errors.hpp"
#include "codec/rows/header.hpp"
#include "codec/rows/numbers.hpp"
#include "codec/rows/rows.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {
namespace {

struct RowsDecodeScratch {
  GrowingBuffer<std::byte> dictionary;
};

// Decodes a chunk of the other codec.
Result<void> decode_other(const ChunkInfo& info, const RowsHeader& header, ByteView payload,
                          Scratch& scratch, MutableBytes out) {
  const Decoder* const decoder = find_decoder(header.codec);
  if (decoder == nullptr) {
    return codec_error(ErrorCode::kUnsupported,
                       "this build does not have the codec that the rows of a chunk are stored by",
                       1);
  }
  const ByteView stored = payload.subspan(header.rows_at(), header.row_bytes);
  auto decoded = decoder->decode(info, stored, scratch, out);
  return decoded ? decoded : shifted(std::move(decoded).error(), header.rows_at());
}

Result<void> decode_dictionary(const ChunkInfo& info, const RowsHeader& header, ByteView payload,
                               Scratch& scratch, MutableBytes out) {
  const RowGeometry rows = *row_geometry(info);
  CFCK_TRY_ASSIGN(NumberReader numbers,
                  NumberReader::open(info, header, payload, rows.n_rows, scratch));
  const std::uint64_t n_bytes = header.n_different * rows.row_bytes;
  std::byte* const dictionary =
      scratch.part<RowsDecodeScratch>().dictionary.reserve(static_cast<std::size_t>(n_bytes));
  const OwnTensor different(info, header.n_different, rows.row_elems);
  CFCK_TRY(decode_other(different.chunk(), header, payload, scratch, {dictionary, n_bytes}));
  std::byte* to = out.data();
  for (std::uint64_t row = 0; row < rows.n_rows; ++row) {
    CFCK_TRY_ASSIGN(const std::uint32_t number, numbers.next());
    std::memcpy(to, dictionary + number * rows.row_bytes, rows.row_bytes);
    to += rows.row_bytes;
  }
  return numbers.finish();
}

Result<void> decode_chunk_of_rows(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                  MutableBytes out) {
  if (!info.preamble.empty()) {
    return codec_error(ErrorCode::kUnsupported, "records of codec rows have no preamble", 0);
  }
  if (payload.empty() || is_lossless_payload(payload)) {
    return decode_lossless(info, payload, scratch, out);
  }
  CFCK_TRY_ASSIGN(const RowsHeader header, parse_rows_header(info, payload));
  if (header.body_bytes() > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (header.body_bytes() != payload.size()) {
    return corrupt("bytes after the end of the chunk", header.body_bytes());
  }
  if (out.size() != (info.n_elems * bits_per_element(info.dtype) + 7) / 8) {
    return invalid_argument("the output does not have the chunk's size");
  }
  if (header.mode == RowsMode::kOther) {
    return decode_other(OwnTensor(info).chunk(), header, payload, scratch, out);
  }
  return decode_dictionary(info, header, payload, scratch, out);
}

}  // namespace

Result<std::uint32_t> RowsDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  if (payload.empty() || is_lossless_payload(payload)) {
    return lossless_body_bytes(info, payload);
  }
  CFCK_TRY_ASSIGN(const RowsHeader header, parse_rows_header(info, payload));
  return static_cast<std::uint32_t>(header.body_bytes());
}

Result<void> RowsDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                 MutableBytes out) const {
  try {
    return decode_chunk_of_rows(info, payload, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while decoding a chunk", {}, {}};
  }
}

const Decoder& rows_decoder() noexcept {
  static constinit MadeOnce<const RowsDecoder> decoder;
  return decoder.get([] { return RowsDecoder(); });
}

}  // namespace cfck::codec
