// group_merge_x86.hpp for x86-64-v4 with VBMI and GFNI: symbols come in registers, and planes
// become values by products of bit matrices. cpu_levels_test compares them with the plain
// kernels.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <array>
#include <cstdint>

#include "codec/entropy/rans/kernels/lanes.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// For 32 values of a group, counted from the part's first: the bytes of the planes that each eight
// bytes take, as a matrix whose row k, the last one first, makes bit k. The highest bit is the
// sign; matrices come twice, for four values each.
template <unsigned n_planes>
struct PlaneMatrices {
  alignas(64) std::uint8_t bytes[4][64];

  constexpr PlaneMatrices() : bytes{} {
    for (unsigned part = 0; part < 4; ++part) {
      for (unsigned eight = 0; eight < 8; ++eight) {
        for (unsigned row = 0; row < 8; ++row) {
          // Row 7 - row makes bit `row`; rows without a plane take any.
          const unsigned plane = row == 7 ? 0 : row + 1 < n_planes ? n_planes - 1 - row : 0;
          bytes[part][8 * eight + 7 - row] =
              static_cast<std::uint8_t>(16 * plane + 4 * part + eight / 2);
        }
      }
    }
  }
};

// Merges the high words of a group as merge_group_x86() does. Writes nothing and returns false
// where symbols are not all of the window.
template <class Format>
CFCK_INLINE bool merge_window_group(const SymbolWords& symbols, std::uint32_t scale_bin,
                                    const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  constexpr unsigned kPlanes = High::kRawBits;
  constexpr unsigned kRawMantissa = High::kRawMantissaBits;
  static_assert(kPlanes > 4 && kPlanes <= 8 && kRawMantissa <= 7);
  static constexpr PlaneMatrices<kPlanes> kMatrices;
  const __m512i largest = _mm512_max_epu16(_mm512_max_epu16(symbols.of[0], symbols.of[1]),
                                           _mm512_max_epu16(symbols.of[2], symbols.of[3]));
  if (_mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(Format::kSymbolZero)) != 0) [[unlikely]] {
    return false;
  }
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m512i first = _mm512_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  const __m512i upper_planes = _mm512_loadu_si512(raw);
  const __m512i lower_planes = _mm512_maskz_loadu_epi64((1u << (2 * (kPlanes - 4))) - 1, raw + 64);
  // Columns give values 0 to 3 of eight, then 4 to 7; both bytes of a word get all planes.
  const __m512i columns =
      _mm512_set_epi64(static_cast<long long>(0x8080404020201010u), 0x0808040402020101,
                       static_cast<long long>(0x8080404020201010u), 0x0808040402020101,
                       static_cast<long long>(0x8080404020201010u), 0x0808040402020101,
                       static_cast<long long>(0x8080404020201010u), 0x0808040402020101);
  const __m512i raw_bits =
      _mm512_set1_epi16(static_cast<short>(0x8000 | ((1 << kRawMantissa) - 1)));
  const std::byte* const low = raw + kPlanes * (kGroupSize / 8);
  for (unsigned part = 0; part < 4; ++part) {
    const __m512i matrices = _mm512_permutex2var_epi8(
        upper_planes, _mm512_load_si512(kMatrices.bytes[part]), lower_planes);
    const __m512i planes = _mm512_gf2p8affine_epi64_epi8(columns, matrices, 0);
    // See merge_group(); the mantissa increases once it is inverted.
    const __m512i field = _mm512_xor_si512(_mm512_sub_epi16(first, symbols.of[part]),
                                           _mm512_set1_epi16(static_cast<short>(kTopMantissa)));
    WordLanes lanes{
        _mm512_ternarylogic_epi32(raw_bits, planes, _mm512_slli_epi16(field, kRawMantissa), 0xca),
        _mm512_setzero_si512()};
    if constexpr (High::kHaveLow) {
      lanes.low = _mm512_loadu_si512(low + 64 * part);
    }
    lanes.template store<Format>(values + part * 32 * sizeof(typename Format::Word));
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
