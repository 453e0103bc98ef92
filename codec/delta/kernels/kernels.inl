// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include <bit>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

std::uint64_t low_bits(std::size_t n) {
  return n >= kDeltaBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

// Place of the set bit that has `rank` set bits below it.
unsigned select_bit(std::uint64_t mask, std::uint64_t rank) {
#if defined(__BMI2__)
  return static_cast<unsigned>(std::countr_zero(_pdep_u64(std::uint64_t{1} << rank, mask)));
#else
  for (; rank > 0; --rank) {
    mask &= mask - 1;
  }
  return static_cast<unsigned>(std::countr_zero(mask));
#endif
}

template <class Word>
std::size_t changed(const std::byte* base, const std::byte* values, std::size_t n_units,
                    std::uint64_t* masks) {
  constexpr std::size_t kBytes = kDeltaBlock * sizeof(Word);
  const std::size_t n_whole = n_units / kDeltaBlock;
  std::size_t n_changed = 0;
  for (std::size_t b = 0; b < n_whole; ++b) {
    masks[b] = Blocks<Word>::differing(base + b * kBytes, values + b * kBytes);
    n_changed += static_cast<std::size_t>(std::popcount(masks[b]));
  }
  const std::size_t n_left = n_units % kDeltaBlock;
  if (n_left != 0) {
    std::byte last[2][kBytes] = {};
    std::memcpy(last[0], base + n_whole * kBytes, n_left * sizeof(Word));
    std::memcpy(last[1], values + n_whole * kBytes, n_left * sizeof(Word));
    masks[n_whole] = Blocks<Word>::differing(last[0], last[1]);
    n_changed += static_cast<std::size_t>(std::popcount(masks[n_whole]));
  }
  return n_changed;
}

template <class Word>
void classes_of_block(const std::byte* base, std::uint64_t units, const ClassRanges& ranges,
                      ClassMasks& masks) {
  std::uint64_t reached[kMaxDeltaClasses];
  Blocks<Word>::reached(base, ranges, reached);
  std::uint64_t rest = units;
  for (unsigned c = 1; c < ranges.n_classes; ++c) {
    masks[c - 1] = rest & ~reached[c];
    rest &= reached[c];
  }
  masks[ranges.n_classes - 1] = rest;
}

template <class Word>
void classes(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
             ClassMasks* masks) {
  constexpr std::size_t kBytes = kDeltaBlock * sizeof(Word);
  const std::size_t n_whole = n_units / kDeltaBlock;
  for (std::size_t b = 0; b < n_whole; ++b) {
    classes_of_block<Word>(base + b * kBytes, ~std::uint64_t{0}, ranges, masks[b]);
  }
  const std::size_t n_left = n_units % kDeltaBlock;
  if (n_left != 0) {
    std::byte last[kBytes] = {};
    std::memcpy(last, base + n_whole * kBytes, n_left * sizeof(Word));
    classes_of_block<Word>(last, low_bits(n_left), ranges, masks[n_whole]);
  }
}

// Reads the difference of a changed unit, and sets what is left before the next one of its class.
// Returns false where they are invalid.
template <class Word>
bool read_change(SparseReader& in, const UnitWords<Word>& words, unsigned unit_bits,
                 SparseClass& of, Word& difference) {
  const std::uint64_t window = in.peek();
  const bool is_negative = (window & 1) != 0;
  std::uint64_t gap = in.take_gap(window, 1, of.width);
  std::uint64_t magnitude = 1;
  if (of.is_wide) {
    if (gap == 0) {
      magnitude = in.take_number(unit_bits) + 2;
      gap = in.take_gap(of.width);
      if (gap == 0 || magnitude - 1 >= words.sign) {  // the largest is that of the sign bit
        return false;
      }
    }
    --gap;
  }
  of.left = gap;
  difference = words.with_sign(static_cast<Word>(magnitude), is_negative);
  return !in.is_past_end();
}

template <class Word>
bool apply_sparse(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                  std::byte* values) {
  const UnitWords<Word> words(walk.format);
  SparseReader in(walk.bits, walk.position, walk.end);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    for (unsigned i = 0; i < walk.n_classes; ++i) {
      SparseClass& one = walk.classes[i];
      const std::uint64_t mask = masks[b][one.number];
      const auto n = static_cast<std::uint64_t>(std::popcount(mask));
      std::uint64_t n_done = 0;
      while (one.left < n - n_done) {
        n_done += one.left;
        std::byte* const at = values + (b * kDeltaBlock + select_bit(mask, n_done)) * sizeof(Word);
        Word difference;
        if (!read_change(in, words, walk.format.bits, one, difference)) {
          return false;
        }
        const Word unit = words.apply(load_word<Word>(at), difference);
        std::memcpy(at, &unit, sizeof(unit));
        ++n_done;
      }
      one.left -= n - n_done;
    }
  }
  walk.position = in.position();
  return true;
}

template <class Word>
void apply_dense(const ClassMasks* masks, std::size_t n_blocks, const UnitFormat& format,
                 DenseCursors<const std::byte>& cursors, std::byte* values) {
  const UnitWords<Word> words(format);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    std::byte* const block = values + b * kDeltaBlock * sizeof(Word);
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      const std::byte* next = cursors.next[i];
      for (std::uint64_t mask = masks[b][cursors.numbers[i]]; mask != 0; mask &= mask - 1) {
        std::byte* const at = block + static_cast<unsigned>(std::countr_zero(mask)) * sizeof(Word);
        const Word unit = words.apply(load_word<Word>(at), load_word<Word>(next));
        std::memcpy(at, &unit, sizeof(unit));
        next += sizeof(Word);
      }
      cursors.next[i] = next;
    }
  }
}

// Lists the changes of a class in a block; `mask` are the units of the class.
void list_changes_of(std::uint64_t mask, std::uint64_t changed, std::uint32_t first_unit,
                     std::uint8_t number, std::uint32_t since, ChangeWalk& walk) {
  std::uint32_t n_done = 0;
  for (std::uint64_t rest = mask & changed; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<unsigned>(std::countr_zero(rest));
    const auto rank = static_cast<std::uint32_t>(std::popcount(mask & low_bits(at)));
    walk.next->unit = first_unit + at;
    walk.next->gap = since + rank - n_done;
    walk.next->class_number = number;
    ++walk.next;
    since = 0;
    n_done = rank + 1;
  }
  walk.since[number] = since + static_cast<std::uint32_t>(std::popcount(mask)) - n_done;
}

void list_changes(const ClassMasks* masks, const std::uint64_t* changed, std::size_t n_blocks,
                  std::uint32_t first_unit, ChangeWalk& walk) {
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const std::uint64_t some = changed[b];
    const auto first = static_cast<std::uint32_t>(first_unit + b * kDeltaBlock);
    if ((some & (some - 1)) != 0) {
      for (unsigned i = 0; i < walk.n_classes; ++i) {
        const std::uint8_t number = walk.numbers[i];
        list_changes_of(masks[b][number], some, first, number, walk.since[number], walk);
      }
      continue;
    }
    // Most blocks have no change or one: no branch depends on its class.
    unsigned found = kMaxDeltaClasses;
    std::uint32_t since = 0;
    for (unsigned i = 0; i < walk.n_classes; ++i) {
      const std::uint8_t number = walk.numbers[i];
      const std::uint64_t mask = masks[b][number];
      const bool is_here = (mask & some) != 0;
      found = is_here ? number : found;
      since = is_here ? walk.since[number] : since;
      walk.since[number] += static_cast<std::uint32_t>(std::popcount(mask));
    }
    if (found != kMaxDeltaClasses) {
      list_changes_of(masks[b][found], some, first, static_cast<std::uint8_t>(found), since, walk);
    }
  }
}

template <class Word>
void list_differences(const ClassMasks* masks, std::size_t n_blocks, const UnitFormat& format,
                      const std::byte* base, const std::byte* values,
                      DenseCursors<std::byte>& cursors) {
  const UnitWords<Word> words(format);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const std::size_t block = b * kDeltaBlock * sizeof(Word);
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      std::byte* next = cursors.next[i];
      for (std::uint64_t mask = masks[b][cursors.numbers[i]]; mask != 0; mask &= mask - 1) {
        const std::size_t at = block + static_cast<unsigned>(std::countr_zero(mask)) * sizeof(Word);
        const Word difference =
            words.difference(load_word<Word>(base + at), load_word<Word>(values + at));
        std::memcpy(next, &difference, sizeof(difference));
        next += sizeof(Word);
      }
      cursors.next[i] = next;
    }
  }
}

void count(const ClassMasks* masks, std::size_t n_blocks, unsigned n_classes,
           std::uint64_t* counts) {
  for (std::size_t b = 0; b < n_blocks; ++b) {
    for (unsigned c = 0; c < n_classes; ++c) {
      counts[c] += static_cast<std::uint64_t>(std::popcount(masks[b][c]));
    }
  }
}

template <class Word>
constexpr DeltaKernels kernels_for() {
  return {&changed<Word>,
          &classes<Word>,
          &apply_sparse<Word>,
          &apply_dense<Word>,
          &list_changes,
          &list_differences<Word>,
          &count};
}

}  // namespace

const DeltaKernelSet& delta_kernel_set() noexcept {
  static constexpr DeltaKernelSet kSet{{kernels_for<std::uint8_t>(), kernels_for<std::uint16_t>(),
                                        kernels_for<std::uint32_t>(),
                                        kernels_for<std::uint64_t>()}};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
