#include "base/hashing/hashing.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/cpu/level.hpp"
#include "base/hashing/hashing_kernel.hpp"

namespace cfck {
namespace {

std::vector<std::byte> some_bytes(std::size_t n_bytes) {
  std::vector<std::byte> bytes(n_bytes);
  std::uint64_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// The published values of XXH3 for the empty string, seed 0.
TEST(Hashing, IsXxh3) {
  EXPECT_EQ(hash64({}), 0x2D06800538D394C2u);
  const Digest digest = hash128({});
  EXPECT_EQ(load<std::uint64_t>(reinterpret_cast<const std::byte*>(digest.data())),
            0x6001C324468D497Fu);
  EXPECT_EQ(load<std::uint64_t>(reinterpret_cast<const std::byte*>(digest.data() + 8)),
            0x99AA06D3014798D8u);
}

TEST(Hashing, IsTheSameOnEveryCpuLevel) {
  const std::vector<std::byte> bytes = some_bytes(5000);
  for (std::size_t n_bytes = 0; n_bytes <= bytes.size(); n_bytes += n_bytes < 300 ? 1 : 47) {
    const ByteView part = ByteView(bytes).first(n_bytes);
    const std::uint64_t expected = hash64_baseline(bytes.data(), n_bytes);
    const HashPair pair = hash128_baseline(bytes.data(), n_bytes);
    EXPECT_EQ(hash64(part), expected);
#if defined(__x86_64__)
    if (cpu_level() >= CpuLevel::kV3) {
      EXPECT_EQ(hash64_v3(bytes.data(), n_bytes), expected);
      EXPECT_EQ(hash128_v3(bytes.data(), n_bytes).low, pair.low);
      EXPECT_EQ(hash128_v3(bytes.data(), n_bytes).high, pair.high);
    }
    if (cpu_level() >= CpuLevel::kV4) {
      EXPECT_EQ(hash64_v4(bytes.data(), n_bytes), expected);
      EXPECT_EQ(hash128_v4(bytes.data(), n_bytes).low, pair.low);
      EXPECT_EQ(hash128_v4(bytes.data(), n_bytes).high, pair.high);
    }
#endif
    const Digest digest = hash128(part);
    EXPECT_EQ(std::memcmp(digest.data(), &pair.low, 8), 0);
    EXPECT_EQ(std::memcmp(digest.data() + 8, &pair.high, 8), 0);
  }
}

// Section 1 of the format, word for word.
std::uint64_t tiled_by_the_book(ByteView bytes) {
  std::uint64_t sum = hash64(bytes.first(std::min<std::size_t>(4096, bytes.size())));
  for (std::size_t tile = 1; tile * 4096 < bytes.size(); ++tile) {
    const std::size_t left = bytes.size() - tile * 4096;
    sum += (2 * tile + 1) * hash64(bytes.subspan(tile * 4096, std::min<std::size_t>(4096, left)));
  }
  return sum;
}

TEST(Hashing, TilesAreHashedInOneAndInTwoPieces) {
  const std::vector<std::byte> bytes = some_bytes(20000);
  const ByteView all(bytes);
  for (const std::size_t n_bytes :
       {0U, 1U, 12U, 240U, 4095U, 4096U, 4097U, 8192U, 12300U, 20000U}) {
    const std::uint64_t expected = tiled_by_the_book(all.first(n_bytes));
    EXPECT_EQ(tiled_hash64(all.first(n_bytes)), expected) << n_bytes;
    for (const std::size_t cut : {0U, 1U, 12U, 4084U, 4096U, 4100U, 8191U, 8192U, 20000U}) {
      const std::size_t first = std::min(cut, n_bytes);
      EXPECT_EQ(tiled_hash64(all.first(first), all.subspan(first, n_bytes - first)), expected)
          << n_bytes << ", " << cut;
    }
#if defined(__x86_64__)
    if (n_bytes != 0) {
      EXPECT_EQ(tile_sum_baseline(bytes.data(), n_bytes, 0), expected);
      if (cpu_level() >= CpuLevel::kV3) {
        EXPECT_EQ(tile_sum_v3(bytes.data(), n_bytes, 0), expected);
      }
    }
#endif
  }
}

TEST(Hashing, TilesThatChangePlacesAreNoticed) {
  const std::vector<std::byte> bytes = some_bytes(3 * kTileBytes);
  std::vector<std::byte> moved(bytes.begin() + kTileBytes, bytes.begin() + 2 * kTileBytes);
  moved.insert(moved.end(), bytes.begin(), bytes.begin() + kTileBytes);
  moved.insert(moved.end(), bytes.begin() + 2 * kTileBytes, bytes.end());
  EXPECT_NE(tiled_hash64(moved), tiled_hash64(bytes));
}

// Section 8 of the format, word for word.
Digest digest_by_the_book(ByteView bytes) {
  std::vector<std::byte> hashes;
  for (std::size_t start = 0; start < bytes.size(); start += 65536) {
    const Digest leaf =
        hash128(bytes.subspan(start, std::min<std::size_t>(65536, bytes.size() - start)));
    const ByteView part = std::as_bytes(std::span(leaf));
    hashes.insert(hashes.end(), part.begin(), part.end());
  }
  return hash128(hashes);
}

TEST(Digest, IsWhatTheFormatSays) {
  const std::vector<std::byte> bytes = some_bytes(3 * kLeafBytes + 17);
  for (const std::size_t n_bytes :
       {std::size_t{0}, std::size_t{1}, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1, bytes.size()}) {
    const ByteView part = ByteView(bytes).first(n_bytes);
    EXPECT_EQ(digest_of(part), digest_by_the_book(part)) << n_bytes;
  }
}

struct Piece {
  std::uint64_t start;
  DigestBuilder::Edges edges;
  std::uint64_t n_bytes;
};

// Chunks of any length, hashed in reverse: the digest does not notice.
TEST(Digest, DoesNotDependOnChunks) {
  const std::vector<std::byte> bytes = some_bytes(5 * kLeafBytes + 1234);
  const Digest expected = digest_of(bytes);
  for (const std::size_t chunk_bytes : {std::size_t{777}, kLeafBytes / 2, kLeafBytes,
                                        kLeafBytes + 1, 3 * kLeafBytes - 5, bytes.size()}) {
    DigestBuilder builder(bytes.size());
    std::vector<Piece> pieces;
    for (std::size_t start = 0; start < bytes.size(); start += chunk_bytes) {
      pieces.push_back({start, {}, std::min(chunk_bytes, bytes.size() - start)});
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      piece->edges = builder.hash_whole_leaves(
          piece->start, ByteView(bytes).subspan(piece->start, piece->n_bytes));
    }
    for (const Piece& piece : pieces) {
      builder.add_edge(piece.start, piece.edges.head);
      builder.add_edge(piece.start + piece.n_bytes - piece.edges.tail.size(), piece.edges.tail);
    }
    EXPECT_EQ(builder.finish(), expected) << chunk_bytes;
  }
}

}  // namespace
}  // namespace cfck
