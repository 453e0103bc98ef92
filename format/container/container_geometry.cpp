// Section 4 of the specification: how many values a chunk has, where raw bytes start.
#include <algorithm>

#include "base/bytes.hpp"
#include "format/container/container.hpp"

namespace cfck::format {
namespace {

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

}  // namespace

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
  const std::uint64_t row = row_elems(shape, target);
  if (row != 0) {
    const std::uint64_t rows = target - target % row;
    if (bits >= 8 || rows % 8 == 0) {
      return rows;
    }
  }
  return target >= 8 ? target - target % 8 : target;
}

std::uint64_t raw_start_bytes(std::uint64_t frame_offset) {
  const std::uint64_t data = frame_offset + kFrameHeaderBytes;
  return kFrameHeaderBytes + (kRawAlignment - data % kRawAlignment) % kRawAlignment;
}

std::uint64_t raw_chunks_per_frame(std::uint64_t full_chunk_bytes) {
  return std::max<std::uint64_t>(1,
                                 kMaxRawFrameBytes / std::max<std::uint64_t>(1, full_chunk_bytes));
}

}  // namespace cfck::format
