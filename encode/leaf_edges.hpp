// Digests of chunks that are finished out of order: workers hash whole leaves, the ordered stage
// adds the bytes between them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hashing/hashing.hpp"

namespace cfck::encode {

// Bytes of a chunk that belong to digest leaves it shares with its neighbours.
struct LeafEdges {
  std::uint64_t head_offset = 0;
  std::vector<std::byte> head;
  std::uint64_t tail_offset = 0;
  std::vector<std::byte> tail;
};

// Hashes the leaves inside the chunk; the result owns copies of the rest.
inline LeafEdges hash_leaves(DigestBuilder& digest, std::uint64_t offset_bytes, ByteView values) {
  const DigestBuilder::Edges found = digest.hash_whole_leaves(offset_bytes, values);
  LeafEdges edges;
  edges.head_offset = offset_bytes;
  edges.head.assign(found.head.begin(), found.head.end());
  edges.tail_offset = offset_bytes + values.size() - found.tail.size();
  edges.tail.assign(found.tail.begin(), found.tail.end());
  return edges;
}

inline void add_edges(DigestBuilder& digest, const LeafEdges& edges) {
  if (!edges.head.empty()) {
    digest.add_edge(edges.head_offset, edges.head);
  }
  if (!edges.tail.empty()) {
    digest.add_edge(edges.tail_offset, edges.tail);
  }
}

}  // namespace cfck::encode
