// Sparse classes: walks over the changed units of blocks, class after class (spec.md, section 4).
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <bit>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Place of the set bit that has `rank` set bits below it.
inline unsigned select_bit(std::uint64_t mask, std::uint64_t rank) {
#if defined(__BMI2__)
  return static_cast<unsigned>(std::countr_zero(_pdep_u64(std::uint64_t{1} << rank, mask)));
#else
  for (; rank > 0; --rank) {
    mask &= mask - 1;
  }
  return static_cast<unsigned>(std::countr_zero(mask));
#endif
}

// The units that are left before the next change of each class, while blocks are passed.
#if defined(__AVX512VPOPCNTDQ__)
// In registers, eight classes in each: a class that is set would be stored as one word, and vectors
// that are loaded right behind that wait for the store.
class UnitsLeft {
 public:
  UnitsLeft(const std::uint64_t* left, unsigned n_classes)
      : low_(_mm512_loadu_si512(left)),
        high_(_mm512_loadu_si512(left + 8)),
        used_((1u << n_classes) - 1) {}

  // Takes the units of a block from it, where the change is behind the block. Returns a bit for
  // each class where it is not.
  CFCK_INLINE unsigned pass_block(const ClassMasks& masks) {
    unsigned found = pass_eight(masks.data(), used_ & 0xff, low_);
    if (used_ > 0xff) {
      found |= pass_eight(masks.data() + 8, used_ >> 8, high_) << 8;
    }
    return found;
  }
  CFCK_INLINE std::uint64_t of(unsigned c) const {
    const __m512i all = _mm512_permutex2var_epi64(low_, _mm512_set1_epi64(c), high_);
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(all)));
  }
  CFCK_INLINE void set(unsigned c, std::uint64_t n) {
    const unsigned bit = 1u << c;
    const auto word = static_cast<long long>(n);
    low_ = _mm512_mask_set1_epi64(low_, static_cast<__mmask8>(bit), word);
    high_ = _mm512_mask_set1_epi64(high_, static_cast<__mmask8>(bit >> 8), word);
  }
  void store(std::uint64_t* left) const {
    _mm512_storeu_si512(left, low_);
    _mm512_storeu_si512(left + 8, high_);
  }

 private:
  static CFCK_INLINE unsigned pass_eight(const std::uint64_t* masks, unsigned used, __m512i& left) {
    const auto some = static_cast<__mmask8>(used);
    const __m512i n = _mm512_popcnt_epi64(_mm512_maskz_loadu_epi64(some, masks));
    const __mmask8 here = _mm512_mask_cmplt_epu64_mask(some, left, n);
    left = _mm512_mask_sub_epi64(left, static_cast<__mmask8>(~here), left, n);
    return here;
  }

  __m512i low_;
  __m512i high_;
  const unsigned used_;  // a bit for each class
};
static_assert(kMaxDeltaClasses == 16);
#else
class UnitsLeft {
 public:
  UnitsLeft(const std::uint64_t* left, unsigned n_classes) : n_classes_(n_classes) {
    std::memcpy(left_, left, sizeof(left_));
  }

  CFCK_INLINE unsigned pass_block(const ClassMasks& masks) {
    unsigned found = 0;
    for (unsigned c = 0; c < n_classes_; ++c) {
      const auto n = static_cast<std::uint64_t>(std::popcount(masks[c]));
      const bool is_here = left_[c] < n;
      left_[c] -= is_here ? 0 : n;
      found |= (is_here ? 1u : 0u) << c;
    }
    return found;
  }
  std::uint64_t of(unsigned c) const { return left_[c]; }
  void set(unsigned c, std::uint64_t n) { left_[c] = n; }
  void store(std::uint64_t* left) const { std::memcpy(left, left_, sizeof(left_)); }

 private:
  std::uint64_t left_[kMaxDeltaClasses];
  const unsigned n_classes_;
};
#endif

// Reads the difference of a changed unit of class c, and what is left before the next one. Returns
// false where they are invalid.
template <class Word>
CFCK_INLINE bool read_change(SparseReader& in, const UnitWords<Word>& words, const SparseWalk& walk,
                             unsigned c, Word& difference, std::uint64_t& left) {
  const unsigned width = walk.widths[c];
  const std::uint64_t window = in.peek();
  const bool is_negative = (window & 1) != 0;
  std::uint64_t gap = in.take_gap(window, 1, width);
  std::uint64_t magnitude = 1;
  if (walk.are_wide[c]) {
    if (gap == 0) {
      magnitude = in.take_number(walk.format.bits) + 2;
      gap = in.take_gap(width);
      if (gap == 0 || magnitude - 1 >= words.sign) {  // the largest is that of the sign bit
        return false;
      }
    }
    --gap;
  }
  left = gap;
  difference = words.with_sign(static_cast<Word>(magnitude), is_negative);
  return !in.is_past_end();
}

template <class Word>
bool apply_sparse(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                  std::byte* values) {
  const UnitWords<Word> words(walk.format);
  SparseReader in(walk.bits, walk.position, walk.end);
  UnitsLeft all_left(walk.left.data(), walk.n_classes);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    for (unsigned found = all_left.pass_block(masks[b]); found != 0; found &= found - 1) {
      const auto c = static_cast<unsigned>(std::countr_zero(found));
      const std::uint64_t mask = masks[b][c];
      const auto n = static_cast<std::uint64_t>(std::popcount(mask));
      std::uint64_t left = all_left.of(c);
      std::uint64_t n_done = 0;
      do {
        n_done += left;
        std::byte* const at = values + (b * kDeltaBlock + select_bit(mask, n_done)) * sizeof(Word);
        Word difference;
        if (!read_change(in, words, walk, c, difference, left)) {
          return false;
        }
        const Word unit = words.apply(load_word<Word>(at), difference);
        std::memcpy(at, &unit, sizeof(unit));
        ++n_done;
      } while (left < n - n_done);
      all_left.set(c, left - (n - n_done));
    }
  }
  all_left.store(walk.left.data());
  walk.position = in.position();
  return true;
}

// Returns a bit for each class that has some of these units.
CFCK_INLINE unsigned classes_with(const ClassMasks& masks, unsigned n_classes,
                                  std::uint64_t units) {
#if defined(__AVX512BW__)
  const __m512i all = _mm512_set1_epi64(static_cast<long long>(units));
  const auto some = [&](unsigned c) {
    return static_cast<unsigned>(_mm512_test_epi64_mask(_mm512_loadu_si512(masks.data() + c), all));
  };
  return (some(0) | (n_classes > 8 ? some(8) << 8 : 0u)) & ((1u << n_classes) - 1);
#else
  unsigned found = 0;
  for (unsigned c = 0; c < n_classes; ++c) {
    found |= ((masks[c] & units) != 0 ? 1u : 0u) << c;
  }
  return found;
#endif
}

CFCK_INLINE void count_block(const ClassMasks& masks, unsigned n_classes, std::uint32_t* units) {
#if defined(__AVX512VPOPCNTDQ__)
  for (unsigned c = 0; c < n_classes; c += 8) {
    const __m512i n = _mm512_popcnt_epi64(_mm512_loadu_si512(masks.data() + c));
    auto* const at = reinterpret_cast<__m256i*>(units + c);
    _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), _mm512_cvtepi64_epi32(n)));
  }
#else
  for (unsigned c = 0; c < n_classes; ++c) {
    units[c] += static_cast<std::uint32_t>(std::popcount(masks[c]));
  }
#endif
}

inline void list_changes(const ClassMasks* masks, const std::uint64_t* changed,
                         std::size_t n_blocks, std::uint32_t first_unit, ChangeWalk& walk) {
  DeltaChange* next = walk.next;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    if (changed[b] != 0) {
      const auto first = static_cast<std::uint32_t>(first_unit + b * kDeltaBlock);
      for (unsigned found = classes_with(masks[b], walk.n_classes, changed[b]) & walk.sparse;
           found != 0; found &= found - 1) {
        const auto c = static_cast<unsigned>(std::countr_zero(found));
        const std::uint64_t mask = masks[b][c];
        for (std::uint64_t rest = mask & changed[b]; rest != 0; rest &= rest - 1) {
          const auto at = static_cast<unsigned>(std::countr_zero(rest));
          const std::uint32_t unit =
              walk.units[c] +
              static_cast<std::uint32_t>(std::popcount(mask & ((std::uint64_t{1} << at) - 1)));
          next->unit = first + at;
          next->gap = unit - walk.listed[c];
          next->class_number = static_cast<std::uint8_t>(c);
          ++next;
          walk.listed[c] = unit + 1;
        }
      }
    }
    count_block(masks[b], walk.n_classes, walk.units.data());
  }
  walk.next = next;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
