// The hashes of one CPU level. Included once for each, by a source that is compiled for it and
// defines CFCK_HASH_LEVEL(name), which appends the level to a name.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hashing/hashing_kernel.hpp"

namespace cfck::detail {

uint64_t CFCK_HASH_LEVEL(hash64)(const void* bytes, size_t n_bytes) noexcept {
  return XXH3_64bits(bytes, n_bytes);
}

uint64_t CFCK_HASH_LEVEL(tile_sum)(const void* bytes, size_t n_bytes, size_t first_tile) noexcept {
  uint64_t sum = 0;
  for (size_t at = 0; at < n_bytes; at += kHashTileBytes) {
    const size_t left = n_bytes - at;
    const size_t tile = first_tile + at / kHashTileBytes;
    sum += (2 * tile + 1) *
           XXH3_64bits((const char*)bytes + at, left < kHashTileBytes ? left : kHashTileBytes);
  }
  return sum;
}

HashPair CFCK_HASH_LEVEL(hash128)(const void* bytes, size_t n_bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes, n_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace cfck::detail
