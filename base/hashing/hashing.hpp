// The hashes of the format (spec/format.md, sections 1 and 8): XXH3, seed 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/record.hpp"
#include "cfck/tensor.hpp"

namespace cfck::detail {

std::uint64_t hash64(ByteView bytes) noexcept;

inline constexpr std::size_t kTileBytes = 4096;

// The tiled hash: the sum of `(2 i + 1) hash64(tile i)`, modulo 2^64, of tiles of kTileBytes, the
// last one shorter; without bytes there is one empty tile. Tiles can be hashed side by side.
std::uint64_t tiled_hash64(ByteView bytes) noexcept;
// Hashes both, one after the other.
std::uint64_t tiled_hash64(ByteView first, ByteView second) noexcept;
Digest hash128(ByteView bytes) noexcept;

inline constexpr std::size_t kLeafBytes = 65536;

// Leaves [begin, end) of a tensor, by number.
struct LeafRange {
  std::uint64_t begin;
  std::uint64_t end;
};
// Returns those that lie inside bytes [begin_bytes, end_bytes) of the tensor. The last leaf ends
// with the tensor.
LeafRange whole_leaves(std::uint64_t begin_bytes, std::uint64_t end_bytes,
                       std::uint64_t tensor_bytes) noexcept;

// Hashes of the leaves of one tensor, filled out of order, then combined.
//
// Chunks need not end at leaf boundaries. A worker passes the bytes of its chunk
// to hash_whole_leaves, which handles the leaves that lie inside and returns
// what is left at both ends; the ordered stage passes those to add_edge in order of
// position.
class DigestBuilder {
 public:
  explicit DigestBuilder(std::uint64_t total_bytes);

  struct Edges {
    ByteView head;  // before the first leaf boundary inside the chunk (or all of it)
    ByteView tail;  // after the last one
  };
  // Thread-safe for chunks that do not overlap.
  Edges hash_whole_leaves(std::uint64_t offset_bytes, ByteView chunk) noexcept;
  // Takes the hashes, by hash128(), of leaves that somebody else has hashed. Thread-safe likewise.
  // Requires: the first one begins at the offset.
  void set_leaves(std::uint64_t offset_bytes, std::span<const Digest> hashes) noexcept;
  // Not thread-safe. Edges of all chunks, in order.
  void add_edge(std::uint64_t offset_bytes, ByteView edge);

  // Requires: every byte was passed.
  Digest finish() const noexcept;

 private:
  std::uint64_t total_bytes_;
  std::vector<Digest> leaves_;
  std::vector<std::byte> pending_;  // of the leaf that add_edge is filling
};

// Computes the digest of a tensor from the hashes of all of its leaves, by hash128().
Digest digest_of_leaves(std::span<const Digest> leaves) noexcept;

// Computes the digest of bytes that are all in memory.
Digest digest_of(ByteView bytes);

}  // namespace cfck::detail
