#include <new>

#include "base/forks/forks.hpp"
#include "codec/rows/dictionary.hpp"
#include "codec/rows/numbers.hpp"
#include "codec/rows/rows.hpp"

namespace cfck::codec {
namespace {

Result<void> encode_chunk_of_rows(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                  EncodedChunk& out) {
  const std::optional<RowGeometry> rows = row_geometry(info);
  if (!rows || values.size() != rows->n_rows * rows->row_bytes) {
    return encode_lossless(info, values, scratch, out);
  }
  DictionaryScratch& memory = scratch.part<DictionaryScratch>();
  memory.finder.number_rows(values.data(), static_cast<std::uint32_t>(rows->n_rows),
                            rows->row_bytes, memory.rows);
  const std::uint32_t n_different = memory.rows.n_unique();
  if (n_different > most_different(rows->n_rows)) {
    return encode_lossless(info, values, scratch, out);
  }
  const std::uint32_t n_repeated = arrange(memory.rows, memory);
  if (n_repeated > kMostRepeated) {
    return encode_lossless(info, values, scratch, out);
  }
  const ByteView different = gather_rows(values, memory.rows, rows->row_bytes, memory);
  OtherChunk& other = memory.different_chunk;
  other.codec = CodecId::kLossless;
  const OwnTensor tensor(info, n_different, rows->row_elems);
  CFCK_TRY(encode_lossless(tensor.chunk(), different, scratch, other.encoded));
  CFCK_TRY(encode_dictionary(info, memory.rows, n_repeated, other, memory, scratch, out));
  if (is_sure(n_different, rows->n_rows)) {
    return {};
  }
  CFCK_TRY(encode_lossless(info, values, scratch, memory.whole.encoded));
  if (memory.whole.encoded.payload.size() < out.payload.size()) {
    std::swap(out, memory.whole.encoded);
  }
  return {};
}

}  // namespace

EntropyId RowsEncoder::entropy_for(DType dtype, EntropyId wanted) const {
  return find_encoder(CodecId::kLossless)->entropy_for(dtype, wanted);
}

Result<void> RowsEncoder::encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                 EncodedChunk& out) const {
  try {
    return encode_chunk_of_rows(info, values, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
  }
}

std::uint32_t RowsEncoder::max_overhead_bytes() const {
  return find_encoder(CodecId::kLossless)->max_overhead_bytes();
}

RowSample RowsEncoder::rows_to_sample(const ChunkInfo& info) const {
  return codec::rows_to_sample(info);
}

bool RowsEncoder::may_be_smaller(std::span<const Digest> hashes) const {
  return rows_repeat(hashes);
}

CodecEncoders rows_encoders() noexcept {
  static constinit MadeOnce<const RowsEncoder> exact;
  static constinit MadeOnce<const RowsLossyEncoder> lossy;
  return {.exact = &exact.get([] { return RowsEncoder(); }),
          .lossy = &lossy.get([] { return RowsLossyEncoder(); })};
}

}  // namespace cfck::codec
