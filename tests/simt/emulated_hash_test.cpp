// XXH3-64, XXH3-128 and the tiled hash on a device against those of the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/hashing/hashing.hpp"
#include "base/simt/xxh3_128_device.cuh"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::simt {
namespace {

std::vector<std::byte> some_bytes(std::size_t n) {
  codec::Random random(n + 1);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random.next() >> 56);
  }
  return bytes;
}

bool operator==(const Hash128& a, const Hash128& b) { return a.low == b.low && a.high == b.high; }

// A hash of bytes at an address that is `offset` above a multiple of 16, in memory that ends with
// them.
template <class Value = std::uint64_t, class Hash>
Value emulated(Hash&& hash, const std::vector<std::byte>& bytes, std::size_t offset) {
  const auto memory = std::make_unique<std::byte[]>(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), memory.get() + offset);
  Value hashes[kWarpLanes] = {};
  emulate(Launch{}, 0, [&](void*) {
    hashes[lane()] = hash(reinterpret_cast<const std::uint8_t*>(memory.get()) + offset,
                          static_cast<std::uint32_t>(bytes.size()));
  });
  for (const Value& of_lane : hashes) {
    EXPECT_TRUE(of_lane == hashes[0]);
  }
  return hashes[0];
}

std::uint64_t emulated_hash(const std::vector<std::byte>& bytes, std::size_t offset) {
  return emulated([](auto... of) { return warp_hash64(of...); }, bytes, offset);
}
std::uint64_t emulated_tiled(const std::vector<std::byte>& bytes, std::size_t offset) {
  return emulated([](auto... of) { return warp_tile_sum(of..., 0, true); }, bytes, offset);
}

void expect_same_128(const std::vector<std::byte>& bytes, std::size_t offset) {
  const auto found =
      emulated<Hash128>([](auto... of) { return warp_hash128(of...); }, bytes, offset);
  const Digest expected = hash128(bytes);
  std::uint64_t words[2];  // the low one first
  std::memcpy(words, expected.data(), sizeof(words));
  ASSERT_EQ(found.low, words[0]) << bytes.size();
  ASSERT_EQ(found.high, words[1]) << bytes.size();
}

TEST(EmulatedHash, Of128BitsOfEveryLengthUpTo1100) {
  for (std::size_t n = 0; n <= 1100; n += n < 300 ? 1 : 13) {
    expect_same_128(some_bytes(n), n % 5);
  }
}

TEST(EmulatedHash, Of128BitsOfLeaves) {
  for (const std::size_t n : {1023, 1024, 1025, 2048, 65535, 65536}) {
    expect_same_128(some_bytes(n), 0);
    expect_same_128(some_bytes(n), 6);
  }
}

TEST(EmulatedHash, OfEveryLengthUpTo2100) {
  for (std::size_t n = 0; n <= 2100; n += n < 300 ? 1 : 7) {
    const auto bytes = some_bytes(n);
    ASSERT_EQ(emulated_hash(bytes, n % 5), hash64(bytes)) << n;
  }
}

TEST(EmulatedHash, AroundWholeBlocksAndStripes) {
  for (std::size_t n_blocks = 1; n_blocks <= 9; ++n_blocks) {
    for (const int more : {-65, -64, -63, -1, 0, 1, 63, 64, 65}) {
      const auto bytes =
          some_bytes(static_cast<std::size_t>(1024 * static_cast<int>(n_blocks) + more));
      for (const std::size_t offset : {0, 3, 4, 7}) {
        ASSERT_EQ(emulated_hash(bytes, offset), hash64(bytes)) << bytes.size() << ", " << offset;
      }
    }
  }
}

TEST(EmulatedHash, OfTiles) {
  for (std::size_t n :
       {0, 1, 16, 240, 241, 1024, 4095, 4096, 4097, 4336, 8191, 8192, 8193, 345678}) {
    const auto bytes = some_bytes(n);
    for (const std::size_t offset : {0, 1, 4, 6}) {
      ASSERT_EQ(emulated_tiled(bytes, offset), tiled_hash64(bytes)) << n << ", " << offset;
    }
  }
}

TEST(EmulatedHash, OfALargeChunk) {
  const auto bytes = some_bytes(345678);
  EXPECT_EQ(emulated_hash(bytes, 1), hash64(bytes));
  EXPECT_EQ(emulated_hash(bytes, 6), hash64(bytes));
}

}  // namespace
}  // namespace cfck::simt
