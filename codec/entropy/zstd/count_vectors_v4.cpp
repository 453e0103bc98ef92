// Compiled for x86-64-v4 with AVX512_VPOPCNTDQ.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 misreports the undefined registers in its own header as a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "codec/entropy/zstd/huffman_vectors.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kBlock = 8192;
inline constexpr std::size_t kVectorBits = 512;
inline constexpr std::size_t kMaxVectors = kBlock / kVectorBits;
inline constexpr unsigned kPlanes = 6;

// One bit for each symbol: true if the symbol has all bits of a set among three.
struct Planes {
  alignas(64) std::uint64_t words[8][kMaxVectors * 8];  // the empty set is not used

  __m512i vector(unsigned set, std::size_t i) const {
    return _mm512_load_si512(words[set] + 8 * i);
  }
  void fill_larger_sets(std::size_t n_vectors) {
    for (std::size_t i = 0; i < n_vectors; ++i) {
      const __m512i first_two = _mm512_and_si512(vector(1, i), vector(2, i));
      _mm512_store_si512(words[3] + 8 * i, first_two);
      _mm512_store_si512(words[5] + 8 * i, _mm512_and_si512(vector(1, i), vector(4, i)));
      _mm512_store_si512(words[6] + 8 * i, _mm512_and_si512(vector(2, i), vector(4, i)));
      _mm512_store_si512(words[7] + 8 * i, _mm512_and_si512(first_two, vector(4, i)));
    }
  }
};

// Splits symbols into planes; zeros fill up the last vector. False if a symbol is not below 64.
bool split_planes(const std::uint8_t* symbols, std::size_t n, std::size_t n_vectors, Planes& low,
                  Planes& high) {
  __m512i in_use = _mm512_setzero_si512();
  for (std::size_t i = 0; i < n_vectors * 8; ++i) {
    const std::size_t left = n > 64 * i ? n - 64 * i : 0;
    const __m512i some =
        left >= 64 ? _mm512_loadu_si512(symbols + 64 * i)
                   : _mm512_maskz_loadu_epi8((std::uint64_t{1} << left) - 1, symbols + 64 * i);
    in_use = _mm512_or_si512(in_use, some);
    for (unsigned bit = 0; bit < kPlanes; ++bit) {
      Planes& planes = bit < 3 ? low : high;
      planes.words[1u << bit % 3][i] =
          _mm512_test_epi8_mask(some, _mm512_set1_epi8(static_cast<char>(1u << bit)));
    }
  }
  low.fill_larger_sets(n_vectors);
  high.fill_larger_sets(n_vectors);
  return _mm512_test_epi8_mask(in_use, _mm512_set1_epi8(static_cast<char>(0xc0))) == 0;
}

// Counts the symbols that have all bits of each set of six.
void count_sets(const Planes& low, const Planes& high, std::size_t n_vectors, std::uint32_t* sets) {
  for (unsigned h = 0; h < 8; ++h) {
    __m512i sums[8];
    for (__m512i& sum : sums) {
      sum = _mm512_setzero_si512();
    }
    for (std::size_t i = 0; i < n_vectors; ++i) {
      const __m512i in_high = h == 0 ? _mm512_set1_epi64(-1) : high.vector(h, i);
      sums[0] = _mm512_add_epi64(sums[0], _mm512_popcnt_epi64(in_high));
      for (unsigned l = 1; l < 8; ++l) {
        sums[l] = _mm512_add_epi64(
            sums[l], _mm512_popcnt_epi64(_mm512_and_si512(in_high, low.vector(l, i))));
      }
    }
    for (unsigned l = 0; l < 8; ++l) {
      sets[8 * h + l] += static_cast<std::uint32_t>(_mm512_reduce_add_epi64(sums[l]));
    }
  }
}

}  // namespace

bool can_count_vectors() noexcept { return __builtin_cpu_supports("avx512vpopcntdq") != 0; }

std::size_t count_vectors(const std::uint8_t* symbols, std::size_t n,
                          std::uint32_t* counts) noexcept {
  Planes low;
  Planes high;
  std::uint32_t sets[64] = {};
  std::size_t n_counted = 0;
  while (n_counted != n) {
    const std::size_t n_block = n - n_counted < kBlock ? n - n_counted : kBlock;
    const std::size_t n_vectors = (n_block + kVectorBits - 1) / kVectorBits;
    if (!split_planes(symbols + n_counted, n_block, n_vectors, low, high)) {
      break;
    }
    count_sets(low, high, n_vectors, sets);
    sets[0] -= static_cast<std::uint32_t>(n_vectors * kVectorBits - n_block);
    n_counted += n_block;
  }
  // A symbol is the set of its bits: counts of larger sets must be subtracted.
  for (unsigned bit = 1; bit < 64; bit *= 2) {
    for (unsigned set = 0; set < 64; ++set) {
      sets[set] -= (set & bit) == 0 ? sets[set | bit] : 0;
    }
  }
  for (unsigned symbol = 0; symbol < 64; ++symbol) {
    counts[symbol] += sets[symbol];
  }
  return n_counted;
}

}  // namespace cfck::codec
