#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hashing/hashing_kernel.hpp"

namespace cfck::detail {

uint64_t hash64_v3(const void* bytes, size_t n_bytes) noexcept {
  return XXH3_64bits(bytes, n_bytes);
}

uint64_t tile_sum_v3(const void* bytes, size_t n_bytes, size_t first_tile) noexcept {
  uint64_t sum = 0;
  for (size_t at = 0; at < n_bytes; at += kHashTileBytes) {
    const size_t left = n_bytes - at;
    const size_t tile = first_tile + at / kHashTileBytes;
    sum += (2 * tile + 1) *
           XXH3_64bits((const char*)bytes + at, left < kHashTileBytes ? left : kHashTileBytes);
  }
  return sum;
}

HashPair hash128_v3(const void* bytes, size_t n_bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes, n_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace cfck::detail
