#include "codec/chunk_geometry.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace cfck::codec {

std::uint64_t ChunkGeometry::elems_of(std::uint64_t chunk) const noexcept {
  return std::min(chunk_elems, n_elems - chunk * chunk_elems);
}

std::uint64_t ChunkGeometry::bytes_of(std::uint64_t chunk) const noexcept {
  return std::min(chunk_bytes, n_bytes - chunk * chunk_bytes);
}

std::uint64_t chunk_count(std::uint64_t n_elems, std::uint64_t chunk_elems) noexcept {
  return chunk_elems == 0 ? 0 : ceil_div(n_elems, chunk_elems);
}

ChunkGeometry chunk_geometry(DType dtype, std::uint64_t n_elems, std::uint64_t n_bytes,
                             std::uint64_t chunk_elems) noexcept {
  ChunkGeometry geometry;
  geometry.n_elems = n_elems;
  geometry.n_bytes = n_bytes;
  geometry.chunk_elems = chunk_elems;
  geometry.n_chunks = chunk_count(n_elems, chunk_elems);
  geometry.chunk_bytes =
      geometry.n_chunks <= 1 ? n_bytes : chunk_elems * bits_per_element(dtype) / 8;
  return geometry;
}

}  // namespace cfck::codec
