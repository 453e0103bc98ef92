// The values of a group on a device: which of them a lane has, their raw bits, and the order of
// those that escape (codec/symboliser/spec.md, sections 5 and 6; codec/direct/spec.md, section 6).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"

namespace cfck::codec {

inline constexpr unsigned kLaneValues = kGroupSize / simt::kWarpLanes;

// The place in its group of number t of a lane: four neighbours in a whole group, otherwise every
// 32nd value from that of the lane on.
CFCK_DEVICE unsigned place_in_group(bool is_whole, unsigned t, unsigned lane) {
  return is_whole ? kLaneValues * lane + t : t * simt::kWarpLanes + lane;
}

// Returns the n_bits bits, up to eight, of value i of those that are packed from `from` on; what is
// above them is unspecified. `from` may be in shared memory.
CFCK_DEVICE std::uint32_t load_packed(const std::uint8_t* from, unsigned n_bits, unsigned i) {
  const unsigned first = i * n_bits;
  return simt::load_bytes(from + first / 8, (first % 8 + n_bits + 7) / 8) >> (first % 8);
}

// Returns the bits, `n_bits` of them, of value i of the n of a group, whose bits are at `from`: the
// highest packed, the others in bytes.
template <class Word>
CFCK_DEVICE Word bits_of_value(const std::uint8_t* from, unsigned n_bits, unsigned n, unsigned i) {
  const unsigned width = n_bits % 8;
  auto bits = static_cast<Word>(width == 0 ? 0 : load_packed(from, width, i) & ((1u << width) - 1));
  // Places are numbers of 32 bits, which take fewer registers than pointers.
  unsigned at = (n * width + 7) / 8 + i;
  CFCK_NO_UNROLL
  for (unsigned left = n_bits / 8; left != 0; --left) {
    const std::uint32_t byte = simt::load_bytes(from + at, 1) & 0xff;
    bits = static_cast<Word>(std::uint64_t{bits} << 8 | byte);
    at += n;
  }
  return bits;
}

// Returns the packed bits, fewer than eight each, of the lane's four values in a whole group. They
// begin in the middle of a byte, or at its start; what is above them is unspecified.
CFCK_DEVICE std::uint32_t load_neighbours(const std::uint8_t* from, unsigned width) {
  const unsigned first = kLaneValues * width * simt::lane();
  const unsigned turn = first % 8;
  return simt::load_bytes(from + first / 8, (turn + kLaneValues * width + 7) / 8) >> turn;
}

// Adds the bits of a whole group to the lane's four numbers, the lowest one as bit `last`. Returns
// what follows them. Numbers are zero but for bits that are not among these.
template <class Word>
CFCK_DEVICE const std::uint8_t* add_neighbours(const std::uint8_t* from, unsigned n_bits,
                                               unsigned last, Word* numbers) {
  const unsigned width = n_bits % 8;
  if (width != 0) {
    const std::uint32_t four = load_neighbours(from, width);
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const std::uint32_t bits = four >> (width * t) & ((1u << width) - 1);
      numbers[t] |= static_cast<Word>(static_cast<Word>(bits) << (n_bits - width + last));
    }
    from += width * (kGroupSize / 8);
  }
  for (unsigned left = n_bits - width; left != 0; left -= 8) {
    const std::uint32_t four = simt::load_bytes(from + kLaneValues * simt::lane(), kLaneValues);
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const std::uint32_t bits = four >> (8 * t) & 0xff;
      numbers[t] |= static_cast<Word>(static_cast<Word>(bits) << (left - 8 + last));
    }
    from += kGroupSize;
  }
  return from;
}

// Does what add_neighbours() does, for a group of n values, whole or not.
template <class Word>
CFCK_DEVICE const std::uint8_t* add_bits_of_group(const std::uint8_t* from, unsigned n_bits,
                                                  unsigned last, unsigned n, Word* numbers) {
  if (n == kGroupSize) {
    return add_neighbours(from, n_bits, last, numbers);
  }
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const unsigned i = t * simt::kWarpLanes + simt::lane();
    if (i < n) {
      const Word bits = bits_of_value<Word>(from, n_bits, n, i);
      numbers[t] |= static_cast<Word>(bits << last);
    }
  }
  return from + packed_bytes(n_bits, n);
}

// Calls `action(t, number)` for those of the lane's numbers that are marked: `number` counts the
// marked values of the group before it, in their order. Bit t of `marks` is for number t of the
// lane. Returns how many are marked in all lanes.
template <class Action>
CFCK_DEVICE std::uint32_t each_marked(bool is_whole, std::uint32_t marks, Action&& action) {
  std::uint32_t n = 0;
  std::uint32_t below = 0;  // in the lanes below
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const bool is_marked = (marks >> t & 1) != 0;
    const std::uint32_t votes = simt::ballot(is_marked);
    const std::uint32_t n_below = simt::popcount(votes & simt::lanes_below());
    if (!is_whole && is_marked) {
      action(t, n + n_below);
    }
    below += n_below;
    n += simt::popcount(votes);
  }
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    if (is_whole && (marks >> t & 1) != 0) {
      action(t, below++);
    }
  }
  return n;
}

}  // namespace cfck::codec
