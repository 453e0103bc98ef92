// XXH3 compiled once for each CPU level. The sources that include this see no C++
// header: an inline function compiled for a newer CPU must not be the copy that
// the linker keeps for everybody.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/names/detail.hpp"

namespace cfck::detail {

constexpr size_t kHashTileBytes = 4096;

struct HashPair {
  uint64_t low;
  uint64_t high;
};

uint64_t hash64_baseline(const void* bytes, size_t n_bytes) noexcept;
uint64_t hash64_v3(const void* bytes, size_t n_bytes) noexcept;
uint64_t hash64_v4(const void* bytes, size_t n_bytes) noexcept;
// The part of the tiled hash that some bytes have of which the first are those of tile
// `first_tile`.
uint64_t tile_sum_baseline(const void* bytes, size_t n_bytes, size_t first_tile) noexcept;
uint64_t tile_sum_v3(const void* bytes, size_t n_bytes, size_t first_tile) noexcept;
uint64_t tile_sum_v4(const void* bytes, size_t n_bytes, size_t first_tile) noexcept;
HashPair hash128_baseline(const void* bytes, size_t n_bytes) noexcept;
HashPair hash128_v3(const void* bytes, size_t n_bytes) noexcept;
HashPair hash128_v4(const void* bytes, size_t n_bytes) noexcept;

}  // namespace cfck::detail
