#include <algorithm>
#include <new>

#include "codec/common/chunk_shape.hpp"
#include "codec/delta/classes_encoder.hpp"
#include "codec/delta/delta.hpp"
#include "codec/delta/encode_scratch.hpp"
#include "codec/delta/nibbles.hpp"

namespace cfck::codec {
namespace {

// Finds the changed units of a chunk, and returns their number.
std::uint64_t find_changes(const DeltaHeader& header, ByteView base, ByteView values,
                           DeltaEncodeScratch& memory) {
  std::uint64_t* const changed = memory.changed.reserve(header.n_blocks());
  return delta_kernels(header.word_bytes())
      .changed(base.data(), values.data(), static_cast<std::size_t>(header.n_units), changed);
}

void encode_nibbles(const ChunkInfo& info, const ChunkShape& shape, ByteView values,
                    Scratch& scratch, std::vector<std::byte>& payload) {
  auto& memory = scratch.part<DeltaEncodeScratch>();
  DeltaHeader header;
  set_units(info, shape, true, header);
  const std::size_t n = 2 * values.size();
  const ByteView base(memory.nibbles_base.reserve(n), n);
  const ByteView units(memory.nibbles.reserve(n), n);
  unpack_nibbles(info.base, memory.nibbles_base.reserve(n));
  unpack_nibbles(values, memory.nibbles.reserve(n));
  encode_delta_classes(header, base, units, find_changes(header, base, units, memory), scratch,
                       payload);
}

Result<void> encode_chunk(const ChunkInfo& info, ByteView values, Scratch& scratch,
                          EncodedChunk& out) {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY(check_base(info, shape.n_bytes()));
  if (values.size() != shape.n_bytes()) {
    return invalid_argument("the values do not have the chunk's size");
  }
  auto& memory = scratch.part<DeltaEncodeScratch>();
  std::vector<std::byte>& payload = out.payload;
  DeltaHeader header;
  set_units(info, shape, false, header);
  const std::uint64_t n_changed = find_changes(header, info.base, values, memory);
  if (n_changed == 0) {
    payload.assign(1, std::byte{static_cast<std::uint8_t>(DeltaMode::kUnchanged)});
  } else {
    encode_delta_classes(header, info.base, values, n_changed, scratch, payload);
    if (may_have_nibbles(info.dtype)) {
      encode_nibbles(info, shape, values, scratch, memory.other_payload);
      if (memory.other_payload.size() <= payload.size()) {
        payload.assign(memory.other_payload.begin(), memory.other_payload.end());
      }
    }
    if (payload.size() > values.size()) {
      payload.assign(1, std::byte{static_cast<std::uint8_t>(DeltaMode::kStored)});
      payload.insert(payload.end(), values.begin(), values.end());
    }
  }
  out.body_bytes = static_cast<std::uint32_t>(payload.size());
  return {};
}

}  // namespace

EntropyId DeltaEncoder::entropy_for(DType /*dtype*/, EntropyId /*wanted*/) const {
  return EntropyId::kRans;
}

std::uint32_t DeltaEncoder::max_overhead_bytes() const { return 1; }

Result<void> DeltaEncoder::encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                  EncodedChunk& out) const {
  try {
    return encode_chunk(info, values, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
  }
}

const Encoder& delta_encoder() noexcept {
  static const DeltaEncoder encoder;
  return encoder;
}

CodecEncoders delta_encoders() noexcept { return {.exact = &delta_encoder()}; }

}  // namespace cfck::codec
