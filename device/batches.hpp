// Work on bytes as kernels are told of it: plain data in the memory of the device.
#pragma once

#include <cstdint>

namespace cfck::device {

// Status of a chunk or an extent after its kernel.
inline constexpr std::uint32_t kOk = 0;
inline constexpr std::uint32_t kFailed = 1;

// Extents, copies and gathers are taken in pieces, so that one large and many small ones keep all
// warps busy. `first_piece` is the number of pieces of all items before this one.
inline constexpr std::uint32_t kHashPieceBytes = 1u << 16;

// Bytes of a file, at least one, with their tiled hash (base/hashing/hashing.hpp), at any address.
// Warps add up its pieces in the description itself; who adds the last one compares.
struct Extent {
  const std::uint8_t* data = nullptr;
  std::uint64_t hash = 0;
  std::uint64_t sum = 0;  // of the pieces that are done
  std::uint32_t n_bytes = 0;
  std::uint32_t first_piece = 0;
  std::uint32_t n_done = 0;  // pieces
};

struct Extents {
  Extent* extents = nullptr;
  std::uint32_t* statuses = nullptr;
  std::uint32_t* next = nullptr;
  std::uint32_t n_extents = 0;
  std::uint32_t n_pieces = 0;
};

inline constexpr std::uint32_t kCopyPieceBytes = 1u << 14;
inline constexpr std::uint32_t kGatherPieceElems = 1u << 12;

// Values that are stored as they are, or one value for all of a chunk.
struct Copy {
  const std::uint8_t* from = nullptr;  // at any address
  std::uint8_t* to = nullptr;
  std::uint64_t n_bytes = 0;      // to be written
  std::uint32_t value_bytes = 0;  // 0: copied; otherwise the value at `from` is repeated
  std::uint32_t first_piece = 0;
};

struct Copies {
  const Copy* copies = nullptr;
  std::uint32_t n_copies = 0;
  std::uint32_t n_pieces = 0;
};

inline constexpr unsigned kMaxGatherDimensions = 8;

// Elements of a tensor with strides. Element (i0, i1, ...) of the view is element
// `offset` + i0 * strides[0] + i1 * strides[1] + ... of the tensor. Element `first` + i of the
// view, in row-major order, is written as the i-th of `to`.
struct Gather {
  const std::uint8_t* from = nullptr;  // element `from_first` of the tensor; aligned to an element
  std::uint8_t* to = nullptr;          // aligned to an element
  std::uint64_t from_first = 0;
  std::uint64_t offset = 0;
  std::uint64_t first = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t shape[kMaxGatherDimensions] = {};
  std::uint64_t strides[kMaxGatherDimensions] = {};
  std::uint32_t n_dimensions = 0;
  std::uint32_t element_bytes = 0;
  std::uint32_t first_piece = 0;
};

struct Gathers {
  const Gather* gathers = nullptr;
  std::uint32_t n_gathers = 0;
  std::uint32_t n_pieces = 0;
};

}  // namespace cfck::device
