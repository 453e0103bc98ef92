#include "codec/common/chunk_shape.hpp"

namespace cfck::codec {

Result<ChunkShape> chunk_shape(const ChunkInfo& info) {
  const unsigned bits = bits_per_element(info.dtype);
  if (bits == 0) {
    return unsupported("unknown dtype");
  }
  if (info.n_elems == 0 || info.n_elems > 8 * kMaxChunkBytes) {
    return invalid_argument("a chunk has 1 to 2^26 bytes");
  }
  const std::uint64_t n_bytes = (info.n_elems * bits + 7) / 8;
  if (n_bytes > kMaxChunkBytes) {
    return invalid_argument("a chunk has 1 to 2^26 bytes");
  }
  const std::uint32_t value_bytes = info.dtype == DType::kC64 ? 4 : bits % 8 == 0 ? bits / 8 : 1;
  return ChunkShape{n_bytes / value_bytes, value_bytes};
}

}  // namespace cfck::codec
