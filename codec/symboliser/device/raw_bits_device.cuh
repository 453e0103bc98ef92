// The raw bits of a group on a device: planes become one number for each of the four values of a
// lane (codec/symboliser/spec.md, section 6; codec/direct/spec.md, section 6.3). Value 32 t + i of
// a group is number t of lane i.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"

namespace cfck::codec {

inline constexpr unsigned kLaneValues = kGroupSize / simt::kWarpLanes;

// Transposes the 32 x 32 bits whose row i is in lane i.
CFCK_DEVICE std::uint32_t transpose_bits(std::uint32_t row) {
  const unsigned lane = simt::lane();
  // Halves, then bytes.
  row = simt::pick_bytes(row, simt::shuffle_xor(row, 16), (lane & 16) != 0 ? 0x3276 : 0x5410);
  row = simt::pick_bytes(row, simt::shuffle_xor(row, 8), (lane & 8) != 0 ? 0x3715 : 0x6240);
  std::uint32_t mask = 0x0f0f0f0fu;
  CFCK_UNROLL
  for (unsigned distance = 4; distance != 0; distance /= 2) {
    // These bits stay; in upper lanes the others do. (A mask that is turned, and not inverted,
    // stays in a register.)
    const unsigned upper = lane & distance;
    const std::uint32_t keep = simt::funnel_right(mask, mask, upper);
    const std::uint32_t other = simt::shuffle_xor(row, distance);
    const unsigned turn = upper != 0 ? distance : simt::kWarpLanes - distance;
    row = (row & keep) | (simt::funnel_right(other, other, turn) & ~keep);
    mask ^= mask << (distance / 2);
  }
  return row;
}

// Returns up to four bytes from `first_byte` on of the plane of a weight, of n_planes of
// `plane_bytes` each, high ones first, from `from` on; 0 where there is none. `from` may be in
// shared memory.
CFCK_DEVICE std::uint32_t load_row(const std::uint8_t* from, unsigned n_planes,
                                   unsigned plane_bytes, unsigned weight, unsigned first_byte) {
  // Lanes that have nothing load what others load.
  const bool has_bytes = weight < n_planes && first_byte < plane_bytes;
  const unsigned plane = has_bytes ? n_planes - 1 - weight : 0;
  const unsigned at = has_bytes ? first_byte : 0;
  const unsigned n_left = plane_bytes - at;
  const std::uint32_t row =
      simt::load_bytes(from + (plane * plane_bytes + at), n_left < 4 ? n_left : 4);
  return has_bytes ? row : 0;
}

// Loads up to eight planes of `plane_bytes` each, high ones first, those of n_planes from `from`
// on, and returns a byte for each value of the lane, value 0 in the low bits.
CFCK_DEVICE std::uint32_t load_planes(const std::uint8_t* from, unsigned n_planes,
                                      unsigned plane_bytes) {
  // Every lane has four bytes of a plane, those of value t.
  return transpose_bits(
      load_row(from, n_planes, plane_bytes, simt::lane() % 8, simt::lane() / 8 * 4));
}

// Adds planes to the lane's four numbers, the lowest plane at bit `last`; returns what follows
// them. Numbers are zero but for bits above the planes.
template <class Word>
CFCK_DEVICE const std::uint8_t* add_planes(const std::uint8_t* from, unsigned end, unsigned last,
                                           unsigned n, Word* numbers) {
  const unsigned plane_bytes = (n + 7) / 8;
  while (end > last) {
    const unsigned n_planes = end - last < 8 ? end - last : 8;
    end -= n_planes;
    const std::uint32_t bytes = load_planes(from, n_planes, plane_bytes);
    from += n_planes * plane_bytes;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      numbers[t] |= static_cast<Word>(static_cast<Word>(bytes >> (8 * t) & 0xff) << end);
    }
  }
  return from;
}

}  // namespace cfck::codec
