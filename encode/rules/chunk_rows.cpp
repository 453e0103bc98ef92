#include "encode/rules/chunk_rows.hpp"

#include <algorithm>
#include <bit>

#include "codec/codec.hpp"
#include "spectral/plan/block_choice.hpp"
#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::encode {
namespace {

// The maximum of lanes in a chunk: with feedback, rows of codec spectral keep to one each.
constexpr std::uint64_t kRowsTogether = 128;

// Number of rows that no chunk should cut.
std::uint64_t rows_together(const SpectralChoice& choice, const Shape& shape) {
  const codec::BlockSides sides = codec::chosen_block(shape, choice.block);
  if (codec::asks_for_block(shape, choice.block) && sides != codec::kernel_block(shape)) {
    return codec::block_side(sides, shape.size(), 0);
  }
  if (choice.moments) {
    return kRowsTogether;
  }
  return shape.size() == 2 ? spectral::kMaxBlockSide : 1;
}

}  // namespace

std::uint64_t align_chunk_elems(const TensorChoice& choice, DType dtype, const Shape& shape,
                                std::uint64_t n_elems, std::uint64_t chunk_elems) {
  if (!choice.spectral || n_elems <= chunk_elems || shape.size() < 2) {
    return chunk_elems;
  }
  const std::uint64_t row_elems = n_elems / shape[0];
  const std::uint64_t n_rows = chunk_elems / row_elems;
  const std::uint64_t n_together = rows_together(*choice.spectral, shape);
  if (n_rows == 0 || n_together == 1) {
    return chunk_elems;
  }
  if (n_rows >= n_together) {
    return row_elems * (n_rows - n_rows % n_together);
  }
  if (choice.spectral->block.empty()) {
    return row_elems * std::bit_floor(n_rows);
  }
  if (row_elems * n_together <= codec::kMaxChunkBytes * 8 / bits_per_element(dtype)) {
    return std::min(row_elems * n_together, n_elems);
  }
  return chunk_elems;
}

}  // namespace cfck::encode
