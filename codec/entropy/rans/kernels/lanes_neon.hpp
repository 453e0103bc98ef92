// Steps of a lane set on AArch64: four registers hold 32 elements of 16 bits.
#pragma once

#include <arm_neon.h>

#include "codec/entropy/rans/kernels/word_orders.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The lower and upper halves of the states of a lane set, eight lanes to a register.
struct LaneStates {
  uint16x8_t low[4];
  uint16x8_t high[4];

  static LaneStates load(const std::uint32_t* states) {
    LaneStates x;
    for (unsigned part = 0; part < 4; ++part) {
      const uint16x8x2_t halves =
          vld2q_u16(reinterpret_cast<const std::uint16_t*>(states + 8 * part));
      x.low[part] = halves.val[0];
      x.high[part] = halves.val[1];
    }
    return x;
  }

  void store(std::uint32_t* states) const {
    for (unsigned part = 0; part < 4; ++part) {
      vst2q_u16(reinterpret_cast<std::uint16_t*>(states + 8 * part),
                uint16x8x2_t{{low[part], high[part]}});
    }
  }
};

// The table entries that a step looks up for 16 lanes.
struct LaneEntries {
  uint16x8_t scaled[2];
  uint16x8_t offsets[2];
  uint8x16_t symbols;
};

// Tables stay in memory, as bytes.
struct LaneTable {
  const RansDecodeTable& table;

  explicit LaneTable(const RansDecodeTable& from) : table(from) {}

  CFCK_INLINE LaneEntries look_up(uint16x8_t first, uint16x8_t second) const {
    const uint8x16_t bucket = vandq_u8(
        vcombine_u8(vshrn_n_u16(first, kRansBucketBits), vshrn_n_u16(second, kRansBucketBits)),
        vdupq_n_u8(kRansSymbols - 1));
    const uint8x16_t place =
        vandq_u8(vcombine_u8(vmovn_u16(first), vmovn_u16(second)), vdupq_n_u8(kRansBucket - 1));
    const uint8x16_t in_alias = vcgeq_u8(place, of_32(table.own, bucket));
    LaneEntries found;
    found.symbols = vbslq_u8(in_alias, of_32(table.alias, bucket), bucket);
    to_words(of_32(table.scaled_low, found.symbols), of_32(table.scaled_high, found.symbols),
             found.scaled);
    const uint8x16_t entry = vorrq_u8(bucket, vandq_u8(in_alias, vdupq_n_u8(kRansSymbols)));
    to_words(of_64(table.offset_low, entry), of_64(table.offset_high, entry), found.offsets);
    return found;
  }

 private:
  static CFCK_INLINE uint8x16_t of_32(const std::uint8_t* bytes, uint8x16_t indices) {
    return vqtbl2q_u8(vld1q_u8_x2(bytes), indices);
  }
  static CFCK_INLINE uint8x16_t of_64(const std::uint8_t* bytes, uint8x16_t indices) {
    return vqtbl4q_u8(vld1q_u8_x4(bytes), indices);
  }
  static CFCK_INLINE void to_words(uint8x16_t low, uint8x16_t high, uint16x8_t (&words)[2]) {
    words[0] = vreinterpretq_u16_u8(vzip1q_u8(low, high));
    words[1] = vreinterpretq_u16_u8(vzip2q_u8(low, high));
  }
};

// Decodes one step of eight lanes.
CFCK_INLINE void step_lanes(uint16x8_t& x_low, uint16x8_t& x_high, uint16x8_t scaled,
                            uint16x8_t offset, const std::byte*& words) {
  const uint16x8_t slot_bits = vdupq_n_u16(kRansTotal - 1);
  const uint16x8_t rank = vandq_u16(vaddq_u16(x_low, offset), slot_bits);
  // f * floor(x / 4096) + rank = 16 f * high + f * floor(low / 4096) + rank.
  const uint16x8_t upper = vbicq_u16(x_low, slot_bits);
  const uint16x8_t quotients =
      vcombine_u16(vshrn_n_u32(vmull_u16(vget_low_u16(scaled), vget_low_u16(upper)), 16),
                   vshrn_n_u32(vmull_high_u16(scaled, upper), 16));
  const uint16x8_t rest = vaddq_u16(quotients, rank);
  const uint32x4_t first =
      vaddw_u16(vmull_u16(vget_low_u16(scaled), vget_low_u16(x_high)), vget_low_u16(rest));
  const uint32x4_t second = vaddw_high_u16(vmull_high_u16(scaled, x_high), rest);
  const uint16x8_t low = vcombine_u16(vmovn_u32(first), vmovn_u32(second));
  const uint16x8_t high = vcombine_u16(vshrn_n_u32(first, 16), vshrn_n_u32(second, 16));
  const uint32x4_t lowest = vdupq_n_u32(kRansLowest);
  const uint16x8_t takes =
      vcombine_u16(vmovn_u32(vcltq_u32(first, lowest)), vmovn_u32(vcltq_u32(second, lowest)));
  const std::uint16_t bit_of[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const unsigned lanes = vaddvq_u16(vandq_u16(takes, vld1q_u16(bit_of)));
  const uint8x16_t next = vld1q_u8(reinterpret_cast<const std::uint8_t*>(words));
  const uint16x8_t taken =
      vreinterpretq_u16_u8(vqtbl1q_u8(next, vld1q_u8(kWordOrders.bytes[lanes])));
  words += 2 * static_cast<std::size_t>(__builtin_popcount(lanes));
  x_low = vbslq_u16(takes, taken, low);
  x_high = vbslq_u16(takes, low, high);
}

// Decodes one step of a lane set; writes 32 symbols.
CFCK_INLINE void decode_step(LaneStates& x, const LaneTable& table, const std::byte*& words,
                             std::uint8_t* symbols) {
  for (unsigned half = 0; half < 2; ++half) {
    const LaneEntries found = table.look_up(x.low[2 * half], x.low[2 * half + 1]);
    for (unsigned part = 0; part < 2; ++part) {
      step_lanes(x.low[2 * half + part], x.high[2 * half + part], found.scaled[part],
                 found.offsets[part], words);
    }
    vst1q_u8(symbols + 16 * half, found.symbols);
  }
}

// Decodes a step of one set, then a step of another or of the same set; writes 64 symbols.
CFCK_INLINE void decode_two_steps(LaneStates& a, LaneStates& b, const LaneTable& table,
                                  const std::byte*& words_a, const std::byte*& words_b,
                                  std::uint8_t* symbols) {
  decode_step(a, table, words_a, symbols);
  decode_step(b, table, words_b, symbols + kRansLanes);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
