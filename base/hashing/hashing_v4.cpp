#include "base/cpu/x86_intrinsics.hpp"
//
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hashing/hashing_kernel.hpp"

namespace cfck::detail {

uint64_t hash64_v4(const void* bytes, size_t n_bytes) noexcept {
  return XXH3_64bits(bytes, n_bytes);
}

uint64_t hash64_of_two_v4(const void* first, size_t first_bytes, const void* second,
                          size_t second_bytes) noexcept {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, first, first_bytes);
  XXH3_64bits_update(&state, second, second_bytes);
  return XXH3_64bits_digest(&state);
}

HashPair hash128_v4(const void* bytes, size_t n_bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes, n_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace cfck::detail
