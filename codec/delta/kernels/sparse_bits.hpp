// The numbers of the section sparse (spec.md, section 4), read one after another.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <bit>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {

// More ones than these begin a gap that has a fixed number of bits.
inline constexpr unsigned kMaxGapOnes = 16;
inline constexpr unsigned kLongGapBits = 28;
inline constexpr unsigned kMaxGapWidth = 27;
// Units of at most so many bits have the length of a difference in ones, others in kLengthBits.
inline constexpr unsigned kMaxUnaryUnit = 16;
inline constexpr unsigned kLengthBits = 6;

inline namespace CFCK_CPU_NAMESPACE {

class SparseReader {
 public:
  SparseReader(const std::byte* bits, std::uint64_t position, std::uint64_t end)
      : bits_(bits), position_(position), end_(end) {}

  // At least the 57 bits that come next.
  std::uint64_t peek() const {
    std::uint64_t word;
    std::memcpy(&word, bits_ + (position_ >> 3), sizeof(word));
    return word >> (position_ & 7);
  }

  // Takes a gap behind `n_before` bits of `window`, which is peek(), and these bits; both together
  // have at most 45 bits.
  std::uint64_t take_gap(std::uint64_t window, unsigned n_before, unsigned width) {
    window >>= n_before;
    const auto ones = static_cast<unsigned>(std::countr_one(window));
    if (ones < kMaxGapOnes) [[likely]] {
      position_ += n_before + ones + 1 + width;
      return (std::uint64_t{ones} << width) +
             (window >> (ones + 1) & ((std::uint64_t{1} << width) - 1));
    }
    position_ += n_before + kMaxGapOnes + kLongGapBits;
    return window >> kMaxGapOnes & ((std::uint64_t{1} << kLongGapBits) - 1);
  }
  std::uint64_t take_gap(unsigned width) { return take_gap(peek(), 0, width); }

  // Takes a number v. Its length is below 64; one that is too large for the unit is found later.
  std::uint64_t take_number(unsigned unit_bits) {
    const std::uint64_t window = peek();
    unsigned n;
    if (unit_bits <= kMaxUnaryUnit) {
      n = static_cast<unsigned>(std::countr_one(window));
      n = n < kMaxUnaryUnit ? n : kMaxUnaryUnit;
      position_ += n + 1;
    } else {
      n = static_cast<unsigned>(window & ((1u << kLengthBits) - 1));
      position_ += kLengthBits;
    }
    std::uint64_t low = 0;
    if (n > 32) {
      low = peek() & 0xffffffffu;
      position_ += 32;
      low |= (peek() & ((std::uint64_t{1} << (n - 32)) - 1)) << 32;
      position_ += n - 32;
    } else {
      low = peek() & ((std::uint64_t{1} << n) - 1);
      position_ += n;
    }
    return ((std::uint64_t{1} << n) | low) - 1;
  }

  std::uint64_t position() const { return position_; }
  bool is_past_end() const { return position_ > end_; }

 private:
  const std::byte* bits_;
  std::uint64_t position_;
  std::uint64_t end_;
};

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
  // No branch on whether the class is wide, since classes follow each other in any order.
  const std::uint64_t n_before = walk.are_wide[c];
  if (gap < n_before) {
    magnitude = in.take_number(walk.format.bits) + 2;
    gap = in.take_gap(width);
    if (gap == 0 || magnitude - 1 >= words.sign) {  // the largest is that of the sign bit
      return false;
    }
  }
  left = gap - n_before;
  difference = words.with_sign(static_cast<Word>(magnitude), is_negative);
  return !in.is_past_end();
}

// Changes the unit of a tile whose place this is.
template <class Word>
CFCK_INLINE void change_unit(const UnitWords<Word>& words, std::byte* values, std::size_t place,
                             Word difference, ChangedUnits* changed) {
  std::byte* const at = values + place * sizeof(Word);
  const Word before = load_word<Word>(at);
  const Word unit = words.apply(before, difference);
  std::memcpy(at, &unit, sizeof(unit));
  if (changed != nullptr) {
    const auto bits = static_cast<Word>(before ^ unit);
    std::memcpy(changed->bits + changed->n * sizeof(Word), &bits, sizeof(bits));
    changed->places[changed->n++] = static_cast<std::uint16_t>(place);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
