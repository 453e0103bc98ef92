// The walk over sparse classes (sparse_walks.hpp) from change to change, where CPUs have AVX-512
// with VBMI2. Where the next change of a class is in the tile is known as soon as its gap is read,
// so that no branch depends on which blocks have changes.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/places.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"

#if defined(__AVX512VBMI2__)

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

static_assert(kDeltaTileBlocks == 32 && kMaxDeltaClasses == 16);

// How many units each class has up to the end of each block of a tile.
class UnitsUpTo {
 public:
  // Only the classes whose bits are set in `wanted` are counted.
  UnitsUpTo(const ClassMasks* masks, std::size_t n_blocks, unsigned wanted) {
    count_eight(masks, n_blocks, 0, wanted & 0xff);
    if (wanted > 0xff) {
      count_eight(masks, n_blocks, 8, wanted & 0xff00);
    }
  }

  unsigned in_tile(unsigned c) const { return rows_[c][kRow - 1]; }
  unsigned before_block(unsigned c, unsigned b) const { return rows_[c][kRow - 33 + b]; }
  // Returns the block of a unit of a class, or that behind the tile.
  CFCK_INLINE unsigned block_of(unsigned c, std::uint64_t unit) const {
    const auto at = static_cast<short>(std::min<std::uint64_t>(unit, 0x7fff));
    const __m512i up_to = _mm512_load_si512(&rows_[c][kRow - 32]);
    return static_cast<unsigned>(
        std::popcount(_mm512_cmple_epu16_mask(up_to, _mm512_set1_epi16(at))));
  }

 private:
  static constexpr unsigned kRow = 64;  // a 0 in front of the 32 blocks, which are aligned

  // The units of 8 classes from `first` on.
  CFCK_INLINE void count_eight(const ClassMasks* masks, std::size_t n_blocks, unsigned first,
                               unsigned wanted) {
    alignas(64) std::uint8_t counts[kDeltaTileBlocks][8];
    for (std::size_t b = 0; b < n_blocks; ++b) {
      const __m512i n = _mm512_popcnt_epi64(_mm512_loadu_si512(masks[b].data() + first));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(counts[b]), _mm512_cvtepi64_epi8(n));
    }
    std::memset(counts[n_blocks], 0, 8 * (kDeltaTileBlocks - n_blocks));
    __m512i blocks[4];
    for (unsigned i = 0; i < 4; ++i) {
      blocks[i] = _mm512_load_si512(counts[std::size_t{8} * i]);
    }
    for (unsigned four = 0; four < 8; four += 4) {
      // Byte 16 k + b of a vector is that of class first + four + k in block b.
      const __m512i places =
          _mm512_add_epi8(_mm512_load_si512(kPlaces), _mm512_set1_epi8(static_cast<char>(four)));
      const __m512i low = _mm512_permutex2var_epi8(blocks[0], places, blocks[1]);
      const __m512i high = _mm512_permutex2var_epi8(blocks[2], places, blocks[3]);
      for (unsigned k = 0; k < 4; ++k) {
        const unsigned c = first + four + k;
        if ((wanted >> c & 1) != 0) {
          const auto at = static_cast<long long>(2 * k);
          const __m512i both = _mm512_permutex2var_epi64(
              low, _mm512_setr_epi64(at, at + 1, at + 8, at + 9, 0, 0, 0, 0), high);
          rows_[c][kRow - 33] = 0;
          _mm512_store_si512(&rows_[c][kRow - 32],
                             sums(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(both))));
        }
      }
    }
  }

  // Each number with all in front of it.
  static CFCK_INLINE __m512i sums(__m512i x) {
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 2));
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 4));
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 8));
    const auto eighth = [&](short of, __mmask32 where) {
      return _mm512_maskz_permutexvar_epi16(where, _mm512_set1_epi16(of), x);
    };
    const __m512i some = _mm512_add_epi16(eighth(7, 0xffffff00), eighth(15, 0xffff0000));
    return _mm512_add_epi16(_mm512_add_epi16(x, some), eighth(23, 0xff000000));
  }

  alignas(64) static constexpr std::uint8_t kPlaces[64] = {
      0, 8,  16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120,
      1, 9,  17, 25, 33, 41, 49, 57, 65, 73, 81, 89, 97, 105, 113, 121,
      2, 10, 18, 26, 34, 42, 50, 58, 66, 74, 82, 90, 98, 106, 114, 122,
      3, 11, 19, 27, 35, 43, 51, 59, 67, 75, 83, 91, 99, 107, 115, 123};

  alignas(64) std::uint16_t rows_[kMaxDeltaClasses][kRow];
};

// The next change of each class: 16 b + c for block b, and the least of them.
class NextChanges {
 public:
  CFCK_INLINE void set(unsigned c, unsigned block) {
    const auto key = static_cast<short>(block * kMaxDeltaClasses + c);
    const unsigned bit = 1u << c;
    low_ = _mm_mask_set1_epi16(low_, static_cast<__mmask8>(bit), key);
    high_ = _mm_mask_set1_epi16(high_, static_cast<__mmask8>(bit >> 8), key);
  }
  CFCK_INLINE unsigned first() const { return std::min(least(low_), least(high_)); }

 private:
  static CFCK_INLINE unsigned least(__m128i keys) {
    return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(keys)));
  }

  __m128i low_ = _mm_set1_epi16(-1);
  __m128i high_ = _mm_set1_epi16(-1);
};

// As apply_sparse() of sparse_walks.hpp.
template <class Word>
bool apply_sparse_by_change(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                            std::byte* values) {
  const UnitWords<Word> words(walk.format);
  const UnitsUpTo up_to(masks, n_blocks, walk.sparse);
  SparseReader in(walk.bits, walk.position, walk.end);
  NextChanges next;
  std::uint64_t units[kMaxDeltaClasses];  // of the next changes, from the start of the tile
  for (unsigned rest = walk.sparse; rest != 0; rest &= rest - 1) {
    const auto c = static_cast<unsigned>(std::countr_zero(rest));
    units[c] = walk.left[c];
    next.set(c, up_to.block_of(c, units[c]));
  }
  for (unsigned key = next.first(); key < kDeltaTileBlocks * kMaxDeltaClasses; key = next.first()) {
    const unsigned c = key % kMaxDeltaClasses;
    const unsigned b = key / kMaxDeltaClasses;
    const std::uint64_t rank = units[c] - up_to.before_block(c, b);
    const unsigned place = b * kDeltaBlock + select_bit(masks[b][c], rank);
    Word difference;
    std::uint64_t left;
    if (!read_change(in, words, walk, c, difference, left)) {
      return false;
    }
    units[c] += 1 + left;
    next.set(c, up_to.block_of(c, units[c]));
    change_unit(words, values, place, difference, walk.changed);
  }
  for (unsigned rest = walk.sparse; rest != 0; rest &= rest - 1) {
    const auto c = static_cast<unsigned>(std::countr_zero(rest));
    walk.left[c] = units[c] - up_to.in_tile(c);
  }
  walk.position = in.position();
  return true;
}

// Returns the class of a unit.
CFCK_INLINE unsigned class_of(const ClassMasks& masks, unsigned n_classes, unsigned bit) {
  const __m512i unit = _mm512_set1_epi64(static_cast<long long>(std::uint64_t{1} << bit));
  const auto some = [&](unsigned first) {
    return unsigned{_mm512_test_epi64_mask(_mm512_loadu_si512(masks.data() + first), unit)};
  };
  const unsigned found = some(0) | some(8) << 8;
  return static_cast<unsigned>(std::countr_zero(found & ((1u << n_classes) - 1)));
}

// Puts the last of the changes in front of those of its block that have a higher class.
CFCK_INLINE void sort_last(DeltaChange* first, DeltaChange* last) {
  const auto order = [](const DeltaChange& change) {
    return change.unit / kDeltaBlock * kMaxDeltaClasses + change.class_number;
  };
  for (; last != first && order(last[-1]) > order(*last); --last) {
    std::swap(last[-1], last[0]);
  }
}

// As list_changes() of sparse_walks.hpp.
inline void list_changes_by_place(const ClassMasks* masks, const std::uint64_t* changed,
                                  std::size_t n_blocks, std::uint32_t first_unit,
                                  ChangeWalk& walk) {
  const UnitsUpTo up_to(masks, n_blocks, (1u << walk.n_classes) - 1);
  std::uint16_t places[kTileUnits + kPlacesSlack];
  const std::size_t n = list_places(changed, n_blocks, places);
  DeltaChange* const first = walk.next;
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned b = places[i] / kDeltaBlock;
    const unsigned bit = places[i] % kDeltaBlock;
    const unsigned c = class_of(masks[b], walk.n_classes, bit);
    const std::uint64_t below = masks[b][c] & ((std::uint64_t{1} << bit) - 1);
    const std::uint32_t unit =
        walk.units[c] + up_to.before_block(c, b) + static_cast<std::uint32_t>(std::popcount(below));
    DeltaChange& change = *walk.next;
    change.unit = first_unit + places[i];
    change.gap = unit - walk.listed[c];
    change.class_number = static_cast<std::uint8_t>(c);
    walk.listed[c] = unit + 1;
    if ((walk.sparse >> c & 1) != 0) {
      sort_last(first, walk.next++);
    }
  }
  for (unsigned c = 0; c < walk.n_classes; ++c) {
    walk.units[c] += up_to.in_tile(c);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

#endif
