// Batches of hashes and copies on the emulator: several blocks and warps that take turns.
#include <gtest/gtest.h>

#include <vector>

#include "base/hashing/hashing.hpp"
#include "cuda/kernels/byte_batches.cuh"
#include "cuda/kernels/launch_shapes.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::cuda {
namespace {

using device::Copies;
using device::Copy;
using device::Extent;
using device::Extents;
using device::kCopyPieceBytes;

constexpr unsigned kBlocks = 3;

std::vector<std::byte> some_bytes(std::size_t n) {
  codec::Random random(n + 1);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random.next() >> 56);
  }
  return bytes;
}

const std::uint8_t* address(const std::vector<std::byte>& bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

TEST(EmulatedBatches, DamagedExtentsAreTheOnesThatFail) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<Extent> extents;
  std::uint32_t n_pieces = 0;
  for (const std::size_t n : {1u, 9u, 100u, 241u, 3000u, 5000u, 65536u, 65537u, 7u, 200000u, 17u}) {
    contents.push_back(some_bytes(n));
    Extent extent;
    extent.data = address(contents.back());
    extent.hash = tiled_hash64(contents.back()) ^ (extents.size() % 3 == 1 ? 1 : 0);
    extent.n_bytes = static_cast<std::uint32_t>(n);
    extent.first_piece = n_pieces;
    n_pieces += (extent.n_bytes + device::kHashPieceBytes - 1) / device::kHashPieceBytes;
    extents.push_back(extent);
  }
  std::vector<std::uint32_t> statuses(extents.size(), 7);
  std::uint32_t next = 0;
  const Extents batch{extents.data(), statuses.data(), &next,
                      static_cast<std::uint32_t>(extents.size()), n_pieces};
  simt::emulate(simt::Launch{kBlocks, kWarpsPerBlock}, 0,
                [&](void*) { hash_extents(batch, kBlocks); });
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(statuses[i], i % 3 == 1 ? device::kFailed : device::kOk) << i;
  }
}

// Copies of all lengths around that of a piece, of bytes and of repeated values, in one batch.
TEST(EmulatedBatches, BytesAreCopiedAndValuesRepeated) {
  const auto from = some_bytes(2 * kCopyPieceBytes + 100);
  std::vector<std::vector<std::byte>> outputs;
  std::vector<Copy> copies;
  std::uint32_t n_pieces = 0;
  for (const std::uint32_t n :
       {1u, 3u, 0u, 4u, 127u, 5000u, kCopyPieceBytes, kCopyPieceBytes + 1, 2 * kCopyPieceBytes}) {
    for (const std::size_t to_offset : {0u, 1u, 2u}) {
      for (const std::uint32_t value_bytes : {0u, 1u, 2u, 4u, 8u}) {
        outputs.emplace_back(to_offset + n);
        copies.push_back({address(from) + 3,
                          reinterpret_cast<std::uint8_t*>(outputs.back().data()) + to_offset, n,
                          value_bytes, n_pieces});
        n_pieces += (n + kCopyPieceBytes - 1) / kCopyPieceBytes;
      }
    }
  }
  const Copies batch{copies.data(), static_cast<std::uint32_t>(copies.size()), n_pieces};
  simt::emulate(simt::Launch{kBlocks, 2}, 0, [&](void*) { copy_bytes(batch, kBlocks); });
  for (std::size_t c = 0; c < copies.size(); ++c) {
    for (std::size_t i = 0; i < copies[c].n_bytes; ++i) {
      const std::size_t source = copies[c].value_bytes == 0 ? i : i % copies[c].value_bytes;
      ASSERT_EQ(std::byte{copies[c].to[i]}, from[3 + source]) << c << " " << i;
    }
  }
}

}  // namespace
}  // namespace cfck::cuda
