#include "codec/chunk_geometry.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "codec/codec.hpp"

namespace cfck::codec {
namespace {

// Codecs code as many values together.
constexpr std::uint64_t kGroupElems = 128;

// The product of all dimensions except the first, or 0 where it is above `most`.
std::uint64_t row_elems(const Shape& shape, std::uint64_t most) {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (shape[i] == 0) {
      return 0;
    }
    if (!checked_mul(product, shape[i], product) || product > most) {
      return 0;
    }
  }
  return product;
}

// Returns a multiple of `unit` of which as few parts, and as equal ones, make up `total` as there
// are with at most `most` in a part. Requires: `most` is a multiple of `unit`.
std::uint64_t equal_part(std::uint64_t total, std::uint64_t most, std::uint64_t unit) {
  const std::uint64_t n_parts = ceil_div(total, most);
  return ceil_div(ceil_div(total, n_parts), unit) * unit;
}

}  // namespace

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

std::uint64_t default_chunk_elems(DType dtype, const Shape& shape, std::uint64_t target_elems) {
  const Result<std::uint64_t> count = n_elems(shape);
  const std::uint64_t total = count ? *count : 0;
  if (total == 0) {
    return 1;
  }
  const unsigned bits = std::max(1u, bits_per_element(dtype));
  const std::uint64_t most = kMaxChunkBytes * 8 / bits;
  std::uint64_t target =
      std::clamp<std::uint64_t>(target_elems != 0 ? target_elems : kDefaultChunkElems, 1, most);
  if (bits < 8) {
    target = std::max<std::uint64_t>(8, target - target % 8);
  }
  if (total <= target) {
    return total;
  }
  const bool is_equal = target_elems == 0;
  const std::uint64_t row = row_elems(shape, target);
  if (row > 1) {
    const std::uint64_t rows = is_equal ? equal_part(shape[0], target / row, 1) : target / row;
    if (bits >= 8 || rows * row % 8 == 0) {
      return rows * row;
    }
  }
  return is_equal      ? equal_part(total, target, kGroupElems)
         : target >= 8 ? target - target % 8
                       : target;
}

}  // namespace cfck::codec
