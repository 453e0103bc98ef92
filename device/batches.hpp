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

// Pieces of a tensor, each of which gets a hash: n_pieces of n_of, evenly spread. Piece i is the
// one of number i * n_of / n_pieces. Each has piece_bytes, but the last of the tensor may be
// shorter.
struct Range {
  const std::uint8_t* data = nullptr;
  std::uint64_t n_bytes = 0;  // of the tensor, at least 1
  std::uint64_t n_of = 0;
  std::uint32_t piece_bytes = 0;
  std::uint32_t n_pieces = 0;
  std::uint32_t first_piece = 0;  // of the piece in `hashes`
};

// XXH3-128.
struct RangeHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

struct Ranges {
  const Range* ranges = nullptr;
  RangeHash* hashes = nullptr;  // of each piece
  std::uint32_t* next = nullptr;
  std::uint32_t n_ranges = 0;
  std::uint32_t n_pieces = 0;
};

// A statistic of the finite values of a part of a tensor, in binary64.
enum class PartStatistic : std::uint32_t {
  kNone,
  kRange,    // minimum and maximum; above and below all values where there are none
  kMoments,  // mean, and sum of the squares of what is off it
};
struct PartFacts {
  double n = 0;
  double first = 0;   // minimum or mean
  double second = 0;  // maximum or sum of squares
};

enum class PartFormat : std::uint32_t { kF64, kF32, kBf16, kF16 };

// Values at an address that is a multiple of their size. Moments are those of values less the first
// finite one of the row, which begins at `row`.
struct Part {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* row = nullptr;
  std::uint64_t n_values = 0;
};

// Parts of one format, of which the same statistic is found.
struct Parts {
  const Part* parts = nullptr;
  PartFacts* facts = nullptr;  // of each
  std::uint32_t* next = nullptr;
  std::uint32_t n_parts = 0;
  PartFormat format = PartFormat::kF64;
  PartStatistic statistic = PartStatistic::kNone;
};

// Three words stand in front of the bytes of a frame. The length of these bytes is added to the
// second word.
struct FrameHeader {
  std::uint32_t words[3] = {};
};
inline constexpr std::uint32_t kFrameHeaderBytes = sizeof(FrameHeader);

// Bytes that kernels put one behind the other, of which the host does not know how many there will
// be.
struct Frame {
  std::uint64_t at = 0;           // where they are
  std::uint64_t n_bytes = 0;      // with the header; 0: there are none, the host has to make them
  std::uint64_t hash = 0;         // tiled; 0 at first
  std::uint32_t first_piece = 0;  // of kHashPieceBytes, of which as many are there as there may be
};

// Frames to be hashed.
struct Frames {
  Frame* frames = nullptr;
  const std::uint8_t* memory = nullptr;
  std::uint32_t* next = nullptr;
  std::uint32_t n_frames = 0;
  std::uint32_t n_pieces = 0;
};

// A message (spec/message.md) around payloads that are there already.
struct Message {
  const Frame* payloads = nullptr;
  Frame* whole = nullptr;        // without the hash; says where it begins
  std::uint64_t most_bytes = 0;  // without the hash: a longer one gets the length 0, and no hash
  std::uint32_t table_at = 0;    // of the lengths of payloads, in the message; 0: there is none
  std::uint32_t n_payloads = 0;
};

// Messages that are sealed twice: first chunk tables are filled in and `whole` gets the length, and
// then, when that was hashed, the hash is put behind it.
struct Messages {
  const Message* messages = nullptr;
  std::uint8_t* memory = nullptr;  // of all frames
  std::uint32_t n_messages = 0;
  std::uint32_t is_hashed = 0;
};

}  // namespace cfck::device
