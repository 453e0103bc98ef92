// The division of a tensor into chunks, which codecs, encoding and container share.
#pragma once

#include <cstdint>

#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::codec {

inline constexpr std::uint64_t kDefaultChunkElems = std::uint64_t{1} << 18;

struct ChunkGeometry {
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = 0;
  std::uint64_t chunk_elems = 1;
  std::uint64_t chunk_bytes = 0;  // of a full chunk
  std::uint64_t n_chunks = 0;

  std::uint64_t elems_of(std::uint64_t chunk) const noexcept;
  std::uint64_t bytes_of(std::uint64_t chunk) const noexcept;
};

std::uint64_t chunk_count(std::uint64_t n_elems, std::uint64_t chunk_elems) noexcept;

// Requires: n_elems and n_bytes of the tensor, already checked; chunk_elems > 0.
ChunkGeometry chunk_geometry(DType dtype, std::uint64_t n_elems, std::uint64_t n_bytes,
                             std::uint64_t chunk_elems) noexcept;

// Returns the chunk length that writers choose for a tensor (spec/format.md, section 4), where
// `target_elems` values are asked for; 0: kDefaultChunkElems.
std::uint64_t default_chunk_elems(DType dtype, const Shape& shape, std::uint64_t target_elems);

}  // namespace cfck::codec
