// Batches of hashes and copies on the emulator: several blocks and warps that take turns.
#include <gtest/gtest.h>

#include <vector>

#include "base/hashing/hashing.hpp"
#include "cuda/kernels/decode_batch.cuh"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::cuda {
namespace {

using codec::DeviceCopy;
using codec::DeviceExtent;
using codec::DeviceExtents;

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
  std::vector<DeviceExtent> extents;
  for (const std::size_t n : {1u, 9u, 100u, 241u, 3000u, 5000u, 64u, 1025u, 7u, 2048u, 17u}) {
    contents.push_back(some_bytes(n));
    const std::uint64_t hash = hash64(contents.back()) ^ (extents.size() % 3 == 1 ? 1 : 0);
    extents.push_back({address(contents.back()), hash, static_cast<std::uint32_t>(n)});
  }
  std::vector<std::uint32_t> statuses(extents.size(), 7);
  std::uint32_t next = 0;
  const DeviceExtents batch{extents.data(), statuses.data(), &next,
                            static_cast<std::uint32_t>(extents.size())};
  simt::emulate(simt::Launch{kBlocks, kWarpsPerBlock}, 0, [&](void*) { hash_batch(batch); });
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(statuses[i], i % 3 == 1 ? codec::kDeviceFailed : codec::kDeviceOk) << i;
  }
}

TEST(EmulatedBatches, BytesAreCopiedAndValuesRepeated) {
  const auto from = some_bytes(5003);
  for (const std::size_t n : {1u, 3u, 4u, 127u, 5000u}) {
    for (const std::size_t to_offset : {0u, 1u, 2u}) {
      for (const std::uint32_t value_bytes : {0u, 1u, 2u, 4u, 8u}) {
        std::vector<std::byte> to(to_offset + n);
        const DeviceCopy copy{address(from) + 3,
                              reinterpret_cast<std::uint8_t*>(to.data()) + to_offset, n,
                              value_bytes};
        simt::emulate(simt::Launch{kBlocks, 2}, 0, [&](void*) { copy_batch({&copy, 1}, kBlocks); });
        for (std::size_t i = 0; i < n; ++i) {
          const std::size_t source = value_bytes == 0 ? i : i % value_bytes;
          ASSERT_EQ(to[to_offset + i], from[3 + source]) << n << " " << value_bytes << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cfck::cuda
