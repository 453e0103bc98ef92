// pack_bits() and unpack_bits() with the vector instructions of the CPU level. lanes_test and
// cpu_levels_test compare them with loops over bits.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/entropy/rans/kernels/words.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

// Joins the bits of each eight bytes; bits from `width` on are cut off.
CFCK_INLINE __m512i pack_sixty_four(__m512i bytes, unsigned width) {
  const int second = 1 << width;
  const __m512i pairs = _mm512_maddubs_epi16(
      _mm512_set1_epi16(static_cast<short>(second << 8 | 1)),
      _mm512_and_si512(bytes, _mm512_set1_epi8(static_cast<char>(second - 1))));
  const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(1 << (2 * width + 16) | 1));
  const __m512i upper =
      _mm512_srl_epi64(fours, _mm_cvtsi32_si128(static_cast<int>(32 - 4 * width)));
  return _mm512_ternarylogic_epi64(_mm512_set1_epi64((1ll << (4 * width)) - 1), fours, upper, 0xca);
}

#endif

#if defined(__AVX512VBMI__)

// For each width, the bytes that the eight values of each eight bytes come from.
struct PackedWindows {
  alignas(64) std::uint8_t of[8][64];

  constexpr PackedWindows() : of{} {
    for (unsigned width = 1; width < 8; ++width) {
      for (unsigned i = 0; i < 64; ++i) {
        of[width][i] = static_cast<std::uint8_t>(i / 8 * width + i % 8);
      }
    }
  }
};
inline constexpr PackedWindows kPackedWindows;

CFCK_INLINE void unpack_bits_x86(const std::uint8_t* packed, unsigned width, std::uint8_t* bytes) {
  // Byte k of eight begins at bit k * width; what is above its bits is cut off.
  const __m512i starts = _mm512_set1_epi64(static_cast<long long>(width * 0x0706050403020100u));
  const __m512i bits = _mm512_set1_epi8(static_cast<char>((1u << width) - 1));
  const __m512i windows = _mm512_load_si512(kPackedWindows.of[width]);
  const auto readable = static_cast<__mmask64>((std::uint64_t{1} << (8 * width)) - 1);
  for (unsigned half = 0; half < 2; ++half) {
    const __m512i some = _mm512_maskz_loadu_epi8(readable, packed + 8 * width * half);
    const __m512i spread =
        _mm512_multishift_epi64_epi8(starts, _mm512_permutexvar_epi8(windows, some));
    _mm512_storeu_si512(bytes + 64 * half, _mm512_and_si512(spread, bits));
  }
}

// The first `width` bytes of each eight.
struct PackedBytes {
  alignas(64) std::uint8_t of[8][64];

  constexpr PackedBytes() : of{} {
    for (unsigned width = 1; width < 8; ++width) {
      for (unsigned i = 0; i < 8 * width; ++i) {
        of[width][i] = static_cast<std::uint8_t>(i / width * 8 + i % width);
      }
    }
  }
};
inline constexpr PackedBytes kPackedBytes;

// Packs the bytes of the first and of the last 64 values.
CFCK_INLINE void pack_registers(__m512i first, __m512i second, unsigned width,
                                std::uint8_t* packed) {
  const __m512i order = _mm512_load_si512(kPackedBytes.of[width]);
  const auto writable = static_cast<__mmask64>((std::uint64_t{1} << (8 * width)) - 1);
  _mm512_mask_storeu_epi8(packed, writable,
                          _mm512_permutexvar_epi8(order, pack_sixty_four(first, width)));
  _mm512_mask_storeu_epi8(packed + 8 * width, writable,
                          _mm512_permutexvar_epi8(order, pack_sixty_four(second, width)));
}
template <unsigned width>
CFCK_INLINE void pack_registers(__m512i first, __m512i second, std::uint8_t* packed) {
  pack_registers(first, second, width, packed);
}

CFCK_INLINE void pack_bits_x86(const std::uint8_t* bytes, unsigned width, std::uint8_t* packed) {
  pack_registers(_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64), width, packed);
}

#elif defined(__AVX2__)

// Where the bits of 16 values are in 16 bytes, and how they get to the top of a word.
template <unsigned width>
struct PackedWords {
  alignas(32) std::uint8_t bytes[32];
  alignas(32) std::uint16_t factors[16];

  constexpr PackedWords() : bytes{}, factors{} {
    for (unsigned i = 0; i < 16; ++i) {
      const unsigned first = i * width;
      bytes[2 * i] = static_cast<std::uint8_t>(first / 8);
      bytes[2 * i + 1] = static_cast<std::uint8_t>(first / 8 + 1);
      factors[i] = static_cast<std::uint16_t>(1u << (16 - width - first % 8));
    }
  }
};

// Returns the bits of 16 values, the i-th of the group, each at the top of a word, with others
// below. Reads sixteen bytes, none of them after the last.
template <unsigned width>
CFCK_INLINE __m256i packed_at_top(const std::uint8_t* packed, unsigned i) {
  static constexpr PackedWords<width> kPlaces;
  constexpr unsigned kLast = 16 * width - 16;
  const unsigned wanted = 2 * width * i;
  const unsigned at = wanted < kLast ? wanted : kLast;
  const __m256i order =
      _mm256_add_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(kPlaces.bytes)),
                      _mm256_set1_epi8(static_cast<char>(wanted - at)));
  const __m256i some =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + at)));
  return _mm256_mullo_epi16(_mm256_shuffle_epi8(some, order),
                            _mm256_load_si256(reinterpret_cast<const __m256i*>(kPlaces.factors)));
}

// Returns the bits of 32 values, the i-th of the group, as bytes.
template <unsigned width>
CFCK_INLINE __m256i unpacked(const std::uint8_t* packed, unsigned i) {
  const __m256i joined =
      _mm256_packus_epi16(_mm256_srli_epi16(packed_at_top<width>(packed, 2 * i), 16 - width),
                          _mm256_srli_epi16(packed_at_top<width>(packed, 2 * i + 1), 16 - width));
  return _mm256_permute4x64_epi64(joined, 0xd8);
}

template <unsigned width>
CFCK_INLINE void unpack_bits_of(const std::uint8_t* packed, std::uint8_t* bytes) {
#if defined(__AVX512BW__)
  // Who loads 64 bytes would wait for two stores of 32.
#pragma GCC unroll 2
  for (unsigned i = 0; i < 2; ++i) {
    _mm512_storeu_si512(bytes + 64 * i,
                        _mm512_inserti64x4(_mm512_castsi256_si512(unpacked<width>(packed, 2 * i)),
                                           unpacked<width>(packed, 2 * i + 1), 1));
  }
#else
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + 32 * i), unpacked<width>(packed, i));
  }
#endif
}

// The first `width` bytes of each eight.
template <unsigned width>
inline constexpr auto kPackedOrder = [] {
  std::array<std::uint8_t, 16> order{};
  for (unsigned i = 0; i < 16; ++i) {
    order[i] = static_cast<std::uint8_t>(i < 2 * width ? i / width * 8 + i % width : 0x80);
  }
  return order;
}();
template <unsigned width>
CFCK_INLINE __m128i packed_order() {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPackedOrder<width>.data()));
}

// Stores the bits of 16 values, the i-th of the group. What follows them is overwritten by the next
// ones; nothing is written after the group.
template <unsigned width>
CFCK_INLINE void store_packed(__m128i values, unsigned i, std::uint8_t* packed) {
  if (2 * width * i + 16 <= 16 * width) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(packed + 2 * width * i), values);
  } else {
    alignas(16) std::uint8_t last[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(last), values);
    std::memcpy(packed + 2 * width * i, last, 2 * width);
  }
}

#if defined(__AVX512BW__)

// Packs the bytes of the first and of the last 64 values.
template <unsigned width>
CFCK_INLINE void pack_registers(__m512i first, __m512i second, std::uint8_t* packed) {
  const __m512i order = _mm512_broadcast_i32x4(packed_order<width>());
  const __m512i joined[2] = {_mm512_shuffle_epi8(pack_sixty_four(first, width), order),
                             _mm512_shuffle_epi8(pack_sixty_four(second, width), order)};
#pragma GCC unroll 2
  for (unsigned i = 0; i < 2; ++i) {
    store_packed<width>(_mm512_extracti32x4_epi32(joined[i], 0), 4 * i, packed);
    store_packed<width>(_mm512_extracti32x4_epi32(joined[i], 1), 4 * i + 1, packed);
    store_packed<width>(_mm512_extracti32x4_epi32(joined[i], 2), 4 * i + 2, packed);
    store_packed<width>(_mm512_extracti32x4_epi32(joined[i], 3), 4 * i + 3, packed);
  }
}

template <unsigned width>
CFCK_INLINE void pack_bits_of(const std::uint8_t* bytes, std::uint8_t* packed) {
  pack_registers<width>(_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64), packed);
}

#else

template <unsigned width>
CFCK_INLINE void pack_bits_of(const std::uint8_t* bytes, std::uint8_t* packed) {
  constexpr int kSecond = 1 << width;
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(kSecond - 1));
  const __m256i pairs = _mm256_set1_epi16(static_cast<short>(kSecond << 8 | 1));
  const __m256i fours = _mm256_set1_epi32(1 << (2 * width + 16) | 1);
  const __m256i lower = _mm256_set1_epi64x((1ll << (4 * width)) - 1);
  const __m256i order = _mm256_broadcastsi128_si256(packed_order<width>());
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    const __m256i some = _mm256_and_si256(
        bits, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32 * i)));
    const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(pairs, some), fours);
    const __m256i eight =
        _mm256_or_si256(_mm256_and_si256(four, lower),
                        _mm256_andnot_si256(lower, _mm256_srli_epi64(four, 32 - 4 * width)));
    const __m256i joined = _mm256_shuffle_epi8(eight, order);
    store_packed<width>(_mm256_castsi256_si128(joined), 2 * i, packed);
    store_packed<width>(_mm256_extracti128_si256(joined, 1), 2 * i + 1, packed);
  }
}

#endif

// Calls `action` with the width, 1 to 7, as a constant.
template <class Action>
CFCK_INLINE void with_width(unsigned width, Action&& action) {
  switch (width) {
    case 1:
      return action(std::integral_constant<unsigned, 1>{});
    case 2:
      return action(std::integral_constant<unsigned, 2>{});
    case 3:
      return action(std::integral_constant<unsigned, 3>{});
    case 4:
      return action(std::integral_constant<unsigned, 4>{});
    case 5:
      return action(std::integral_constant<unsigned, 5>{});
    case 6:
      return action(std::integral_constant<unsigned, 6>{});
    default:
      return action(std::integral_constant<unsigned, 7>{});
  }
}

CFCK_INLINE void unpack_bits_x86(const std::uint8_t* packed, unsigned width, std::uint8_t* bytes) {
  with_width(width, [&](auto constant) { unpack_bits_of<constant>(packed, bytes); });
}

CFCK_INLINE void pack_bits_x86(const std::uint8_t* bytes, unsigned width, std::uint8_t* packed) {
  with_width(width, [&](auto constant) { pack_bits_of<constant>(bytes, packed); });
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
