#include "base/hashing/hashing.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/cpu/level.hpp"
#include "base/forks/forks.hpp"
#include "base/hashing/hashing_kernel.hpp"

namespace cfck::detail {

static_assert(kTileBytes == kHashTileBytes);

namespace {

struct Kernel {
  std::uint64_t (*hash64)(const void*, std::size_t) noexcept = hash64_baseline;
  std::uint64_t (*tile_sum)(const void*, std::size_t, std::size_t) noexcept = tile_sum_baseline;
  HashPair (*hash128)(const void*, std::size_t) noexcept = hash128_baseline;
};

Kernel choose() noexcept {
#if defined(__x86_64__)
  if (cpu_level() >= CpuLevel::kV4) {
    return {hash64_v4, tile_sum_v4, hash128_v4};
  }
  if (cpu_level() >= CpuLevel::kV3) {
    return {hash64_v3, tile_sum_v3, hash128_v3};
  }
#endif
  return {};
}

const Kernel& kernel() noexcept {
  static constinit MadeOnce<Kernel> chosen;
  return chosen.get(&choose);
}

}  // namespace

std::uint64_t hash64(ByteView bytes) noexcept {
  return kernel().hash64(bytes.data(), bytes.size());
}

std::uint64_t tiled_hash64(ByteView bytes) noexcept {
  return bytes.empty() ? hash64(bytes) : kernel().tile_sum(bytes.data(), bytes.size(), 0);
}

std::uint64_t tiled_hash64(ByteView first, ByteView second) noexcept {
  const std::size_t whole_bytes = first.size() / kTileBytes * kTileBytes;
  const ByteView rest = first.subspan(whole_bytes);
  if (rest.empty() || second.empty()) {
    return second.empty()
               ? tiled_hash64(first)
               : kernel().tile_sum(first.data(), whole_bytes, 0) +
                     kernel().tile_sum(second.data(), second.size(), whole_bytes / kTileBytes);
  }
  // The tile that has bytes of both.
  std::byte tile[kTileBytes];
  const std::size_t of_second = std::min(second.size(), kTileBytes - rest.size());
  std::memcpy(tile, rest.data(), rest.size());
  std::memcpy(tile + rest.size(), second.data(), of_second);
  const std::size_t number = whole_bytes / kTileBytes;
  return kernel().tile_sum(first.data(), whole_bytes, 0) +
         kernel().tile_sum(tile, rest.size() + of_second, number) +
         kernel().tile_sum(second.data() + of_second, second.size() - of_second, number + 1);
}

Digest hash128(ByteView bytes) noexcept {
  const HashPair pair = kernel().hash128(bytes.data(), bytes.size());
  Digest digest;
  std::memcpy(digest.data(), &pair.low, 8);
  std::memcpy(digest.data() + 8, &pair.high, 8);
  return digest;
}

}  // namespace cfck::detail
