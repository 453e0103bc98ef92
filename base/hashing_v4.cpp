// Compilers warn of the registers that their own intrinsics leave undefined on purpose
// (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hashing_kernel.hpp"

namespace cfck {

uint64_t hash64_v4(const void* bytes, size_t n_bytes) noexcept {
  return XXH3_64bits(bytes, n_bytes);
}

HashPair hash128_v4(const void* bytes, size_t n_bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes, n_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace cfck
