// Sparse classes: walks over the changed units of blocks, class after class (spec.md, section 4).
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <bit>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"
#include "codec/delta/kernels/sparse_walk_v4.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The units that are left before the next change of each class, while blocks are passed.
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

template <class Word>
bool apply_sparse(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                  std::byte* values) {
#if defined(__AVX512VBMI2__)
  return apply_sparse_by_change<Word>(masks, n_blocks, walk, values);
#else
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
        const std::size_t place = b * kDeltaBlock + select_bit(mask, n_done);
        Word difference;
        if (!read_change(in, words, walk, c, difference, left)) {
          return false;
        }
        change_unit(words, values, place, difference, walk.changed);
        ++n_done;
      } while (left < n - n_done);
      all_left.set(c, left - (n - n_done));
    }
  }
  all_left.store(walk.left.data());
  walk.position = in.position();
  return true;
#endif
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
#if defined(__AVX512VBMI2__)
  list_changes_by_place(masks, changed, n_blocks, first_unit, walk);
#else
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
#endif
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
