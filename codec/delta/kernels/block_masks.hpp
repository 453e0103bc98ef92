// Comparisons of whole blocks of 64 units, each to a mask of 64 bits; one source for each level.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/delta/kernels/kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

template <class Word>
Word load_word(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The reference: one unit after another.
template <class Word>
struct SerialBlocks {
  static std::uint64_t differing(const std::byte* base, const std::byte* values) {
    if (std::memcmp(base, values, kDeltaBlock * sizeof(Word)) == 0) {
      return 0;
    }
    std::uint64_t mask = 0;
    for (unsigned i = 0; i < kDeltaBlock; ++i) {
      const std::size_t at = i * sizeof(Word);
      mask |= std::uint64_t{load_word<Word>(base + at) != load_word<Word>(values + at)} << i;
    }
    return mask;
  }

  // The masks of keys that reach each threshold but the first.
  static void reached(const std::byte* base, const ClassRanges& ranges, std::uint64_t* masks) {
    for (unsigned c = 1; c < ranges.n_classes; ++c) {
      masks[c] = 0;
    }
    for (unsigned i = 0; i < kDeltaBlock; ++i) {
      const std::uint64_t key =
          (load_word<Word>(base + i * sizeof(Word)) & ranges.key_mask) >> ranges.key_shift;
      for (unsigned c = 1; c < ranges.n_classes; ++c) {
        masks[c] |= std::uint64_t{key >= ranges.thresholds[c]} << i;
      }
    }
  }
};

#if defined(__AVX512BW__)

template <class Word>
struct VectorBlocks {
  static constexpr unsigned kLanes = 64 / sizeof(Word);
  static constexpr unsigned kVectors = kDeltaBlock / kLanes;

  static __m512i load(const std::byte* from, unsigned i) {
    return _mm512_loadu_si512(from + std::size_t{i} * 64);
  }
  static __m512i all(std::uint64_t value) {
    if constexpr (sizeof(Word) == 1) {
      return _mm512_set1_epi8(static_cast<char>(value));
    } else if constexpr (sizeof(Word) == 2) {
      return _mm512_set1_epi16(static_cast<short>(value));
    } else if constexpr (sizeof(Word) == 4) {
      return _mm512_set1_epi32(static_cast<int>(value));
    } else {
      return _mm512_set1_epi64(static_cast<long long>(value));
    }
  }
  static std::uint64_t unequal(__m512i a, __m512i b) {
    if constexpr (sizeof(Word) == 1) {
      return _mm512_cmpneq_epi8_mask(a, b);
    } else if constexpr (sizeof(Word) == 2) {
      return _mm512_cmpneq_epi16_mask(a, b);
    } else if constexpr (sizeof(Word) == 4) {
      return _mm512_cmpneq_epi32_mask(a, b);
    } else {
      return _mm512_cmpneq_epi64_mask(a, b);
    }
  }
  static std::uint64_t differing(const std::byte* base, const std::byte* values) {
    std::uint64_t mask = 0;
    for (unsigned i = 0; i < kVectors; ++i) {
      mask |= unequal(load(base, i), load(values, i)) << (i * kLanes);
    }
    return mask;
  }

  // Keys of units below 64 bits are bytes; of bytes, they are not shifted.
  static __m512i byte_keys(const std::byte* base, const ClassRanges& ranges) {
    const __m512i mask = all(ranges.key_mask);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(ranges.key_shift));
    const auto keys = [&](unsigned i) {
      const __m512i units = _mm512_and_si512(load(base, i), mask);
      if constexpr (sizeof(Word) == 2) {
        return _mm512_srl_epi16(units, shift);
      } else {
        return _mm512_srl_epi32(units, shift);
      }
    };
    if constexpr (sizeof(Word) == 1) {
      return _mm512_and_si512(load(base, 0), mask);
    } else if constexpr (sizeof(Word) == 2) {
      return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                      _mm512_packus_epi16(keys(0), keys(1)));
    } else {
      return _mm512_permutexvar_epi32(
          _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
          _mm512_packus_epi16(_mm512_packus_epi32(keys(0), keys(1)),
                              _mm512_packus_epi32(keys(2), keys(3))));
    }
  }

  static void reached(const std::byte* base, const ClassRanges& ranges, std::uint64_t* masks) {
    if constexpr (sizeof(Word) < 8) {
      const __m512i keys = byte_keys(base, ranges);
      const unsigned shift = sizeof(Word) == 1 ? ranges.key_shift : 0;
      for (unsigned c = 1; c < ranges.n_classes; ++c) {
        const auto threshold = static_cast<char>(ranges.thresholds[c] << shift);
        masks[c] = _mm512_cmpge_epu8_mask(keys, _mm512_set1_epi8(threshold));
      }
    } else {
      reached_words(base, ranges, masks);
    }
  }

  static void reached_words(const std::byte* base, const ClassRanges& ranges,
                            std::uint64_t* masks) {
    __m512i keys[kVectors];
    for (unsigned i = 0; i < kVectors; ++i) {
      keys[i] = _mm512_and_si512(load(base, i), all(ranges.key_mask));
    }
    for (unsigned c = 1; c < ranges.n_classes; ++c) {
      const __m512i threshold = all(std::uint64_t{ranges.thresholds[c]} << ranges.key_shift);
      std::uint64_t mask = 0;
      for (unsigned i = 0; i < kVectors; ++i) {
        mask |= std::uint64_t{_mm512_cmpge_epu64_mask(keys[i], threshold)} << (i * kLanes);
      }
      masks[c] = mask;
    }
  }
};

#elif defined(__AVX2__)

template <class Word>
struct VectorBlocks {
  static constexpr unsigned kLanes = 32 / sizeof(Word);
  static constexpr unsigned kVectors = kDeltaBlock / kLanes;

  static __m256i load(const std::byte* from, unsigned i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + std::size_t{i} * 32));
  }
  static __m256i all(std::uint64_t value) {
    if constexpr (sizeof(Word) == 1) {
      return _mm256_set1_epi8(static_cast<char>(value));
    } else if constexpr (sizeof(Word) == 2) {
      return _mm256_set1_epi16(static_cast<short>(value));
    } else if constexpr (sizeof(Word) == 4) {
      return _mm256_set1_epi32(static_cast<int>(value));
    } else {
      return _mm256_set1_epi64x(static_cast<long long>(value));
    }
  }
  static __m256i equal(__m256i a, __m256i b) {
    if constexpr (sizeof(Word) == 1) {
      return _mm256_cmpeq_epi8(a, b);
    } else if constexpr (sizeof(Word) == 2) {
      return _mm256_cmpeq_epi16(a, b);
    } else if constexpr (sizeof(Word) == 4) {
      return _mm256_cmpeq_epi32(a, b);
    } else {
      return _mm256_cmpeq_epi64(a, b);
    }
  }
  static __m256i above(__m256i a, __m256i b) {
    if constexpr (sizeof(Word) == 1) {
      return _mm256_cmpgt_epi8(a, b);
    } else if constexpr (sizeof(Word) == 2) {
      return _mm256_cmpgt_epi16(a, b);
    } else if constexpr (sizeof(Word) == 4) {
      return _mm256_cmpgt_epi32(a, b);
    } else {
      return _mm256_cmpgt_epi64(a, b);
    }
  }
  static std::uint64_t unsigned_bits(int mask) { return static_cast<std::uint32_t>(mask); }

  // The mask of the lanes of all vectors, each of which is zeros or ones.
  static std::uint64_t mask_of(const __m256i* lanes) {
    std::uint64_t mask = 0;
    if constexpr (sizeof(Word) == 2) {
      for (unsigned i = 0; i < kVectors; i += 2) {
        const __m256i bytes =
            _mm256_permute4x64_epi64(_mm256_packs_epi16(lanes[i], lanes[i + 1]), 0xd8);
        mask |= unsigned_bits(_mm256_movemask_epi8(bytes)) << (i * kLanes);
      }
    } else {
      for (unsigned i = 0; i < kVectors; ++i) {
        std::uint64_t some;
        if constexpr (sizeof(Word) == 1) {
          some = unsigned_bits(_mm256_movemask_epi8(lanes[i]));
        } else if constexpr (sizeof(Word) == 4) {
          some = unsigned_bits(_mm256_movemask_ps(_mm256_castsi256_ps(lanes[i])));
        } else {
          some = unsigned_bits(_mm256_movemask_pd(_mm256_castsi256_pd(lanes[i])));
        }
        mask |= some << (i * kLanes);
      }
    }
    return mask;
  }

  static std::uint64_t differing(const std::byte* base, const std::byte* values) {
    __m256i lanes[kVectors];
    __m256i some = _mm256_setzero_si256();
    for (unsigned i = 0; i < kVectors; ++i) {
      const __m256i a = load(base, i), b = load(values, i);
      some = _mm256_or_si256(some, _mm256_xor_si256(a, b));
      lanes[i] = equal(a, b);
    }
    return _mm256_testz_si256(some, some) != 0 ? 0 : ~mask_of(lanes);
  }

  // There are signed comparisons only, so the highest bit is flipped where keys may have it.
  static void reached(const std::byte* base, const ClassRanges& ranges, std::uint64_t* masks) {
    const std::uint64_t flipped =
        ranges.may_have_high_bit ? std::uint64_t{1} << (8 * sizeof(Word) - 1) : 0;
    __m256i keys[kVectors];
    for (unsigned i = 0; i < kVectors; ++i) {
      keys[i] =
          _mm256_xor_si256(_mm256_and_si256(load(base, i), all(ranges.key_mask)), all(flipped));
    }
    for (unsigned c = 1; c < ranges.n_classes; ++c) {
      const __m256i below =
          all(((std::uint64_t{ranges.thresholds[c]} << ranges.key_shift) - 1) ^ flipped);
      __m256i lanes[kVectors];
      for (unsigned i = 0; i < kVectors; ++i) {
        lanes[i] = above(keys[i], below);
      }
      masks[c] = mask_of(lanes);
    }
  }
};

#endif

#if defined(__AVX2__)
template <class Word>
using Blocks = VectorBlocks<Word>;
#else
template <class Word>
using Blocks = SerialBlocks<Word>;
#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
