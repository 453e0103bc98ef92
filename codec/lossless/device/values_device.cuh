// Values of codec lossless on a device: from a symbol and raw bits to a value
// (codec/symboliser/spec.md, sections 2, 5 and 6).
#pragma once

#include <type_traits>

#include "base/simt/warp.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

// Computes values of a format with 32 symbols.
template <class Format>
struct LosslessValues {
  using Word = typename Format::Word;
  // A value is computed in these: a register has 32 bits at least.
  using Bits = std::conditional_t<sizeof(Word) == 8, std::uint64_t, std::uint32_t>;
  static constexpr unsigned kRawMantissa = Format::kRawMantissaBits;
  static constexpr Word kRawMask = static_cast<Word>((Word{1} << kRawMantissa) - 1);

  CFCK_DEVICE static std::uint32_t group_raw_bytes(bool has_signs, unsigned trailing_zero_bits,
                                                   unsigned n) {
    return static_cast<std::uint32_t>(raw_group_bytes<Format>(has_signs, trailing_zero_bits, n));
  }

  // The high bits of a value with the symbol: those of the window's exponents, nothing for others.
  // They are the upper half of a word of 64 bits.
  CFCK_DEVICE static std::uint32_t top_of_symbol(std::uint32_t scale_bin, std::uint32_t symbol) {
    return top_below(first_field(scale_bin), symbol);
  }
  // The field of symbol 0, and the high bits by it.
  CFCK_DEVICE static std::uint32_t first_field(std::uint32_t scale_bin) {
    return (scale_bin / kPhases - 4) * 2;
  }
  CFCK_DEVICE static std::uint32_t top_below(std::uint32_t first, std::uint32_t symbol) {
    constexpr unsigned kHighBits = Format::kBits < 32 ? Format::kBits : 32;
    constexpr unsigned kShift = kRawMantissa - (Format::kBits - kHighBits);
    constexpr std::uint32_t kMagnitude = (std::uint32_t{1} << (kHighBits - 1)) - 1;
    const std::uint32_t field = first - (symbol & ~1u) + (symbol & 1u);
    return symbol >= Format::kSymbolZero ? 0 : field << kShift & kMagnitude;
  }

  CFCK_DEVICE static Word value_of(Bits bits, std::uint32_t top) {
    constexpr unsigned kTopShift = Format::kBits < 32 ? 0 : Format::kBits - 32;
    constexpr unsigned kSign = Format::kBits - 1;
    const Bits sign = bits << (kSign - kRawMantissa) & Bits{1} << kSign;
    return static_cast<Word>((bits & kRawMask) | sign | static_cast<Bits>(top) << kTopShift);
  }

  // Returns the raw bits of value i of a group of n values, whose raw bits are at `raw`.
  CFCK_DEVICE static Word raw_bits_of(const std::uint8_t* raw, bool has_signs,
                                      unsigned trailing_zero_bits, unsigned n, unsigned i) {
    constexpr unsigned kLowBytes = Format::kLowBits / 8;
    const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
    const unsigned last = trailing_zero_bits + low_bits;
    const unsigned n_bits = Format::kRawBits - (has_signs ? 0 : 1) - last;
    auto bits = static_cast<Word>(bits_of_value<Word>(raw, n_bits, n, i) << last);
    if constexpr (kLowBytes != 0) {
      if (low_bits != 0) {
        bits |= load_low<kLowBytes>(raw + packed_bytes(n_bits, n) + i * kLowBytes);
      }
    }
    return bits;
  }

  template <unsigned n_bytes>
  CFCK_DEVICE static Word load_low(const std::uint8_t* from) {
    constexpr Word kMask = static_cast<Word>((std::uint64_t{1} << 8 * n_bytes) - 1);
    if constexpr (n_bytes <= 4) {
      return static_cast<Word>(simt::load_bytes(from, n_bytes)) & kMask;
    } else {
      return static_cast<Word>(simt::load_long(from, n_bytes)) & kMask;
    }
  }

  // The raw bits of the lane's four values of a common group, in as few registers as they fit.
  // There are not enough for integers of 48 bits beside symbols: these are loaded when they are
  // stored.
  struct CommonBits {
    const std::uint8_t* integers = nullptr;
    std::uint32_t packed = 0;
    std::uint32_t bytes = 0;
    std::uint64_t low = 0;

    CFCK_DEVICE explicit CommonBits(const std::uint8_t* raw) {
      if constexpr (kWidth != 0) {
        packed = load_neighbours(raw, kWidth);
        raw += kWidth * (kGroupSize / 8);
      }
      if constexpr (kHighBits >= 8) {
        bytes = simt::load_bytes(raw + kLaneValues * simt::lane(), kLaneValues);
      }
      if constexpr (Format::kLowBits == 16) {
        low = simt::load_long(raw + 2 * kLaneValues * simt::lane(), 2 * kLaneValues);
      }
      if constexpr (Format::kLowBits == 48) {
        integers = raw + 6 * kLaneValues * simt::lane();
      }
    }

    // Stores the values, whose high bits are `tops`.
    CFCK_DEVICE void store(const std::uint32_t* tops, Word* to) const {
      if constexpr (sizeof(Word) == 2 && kHighBits < 8) {
        simt::store_pairs(to, pair<0>(tops), pair<1>(tops));
      } else if constexpr (Format::kLowBits == 48) {
        const std::uint64_t first = simt::load_long(integers, 8);
        const std::uint64_t second = simt::load_long(integers, 8, 8);
        const std::uint64_t third = simt::load_long(integers, 8, 16);
        const Word values[kLaneValues] = {with_integer(0, first, tops[0]),
                                          with_integer(1, first >> 48 | second << 16, tops[1]),
                                          with_integer(2, second >> 32 | third << 32, tops[2]),
                                          with_integer(3, third >> 16, tops[3])};
        simt::store_four(to, values);
      } else {
        Word values[kLaneValues];
        CFCK_UNROLL
        for (unsigned t = 0; t < kLaneValues; ++t) {
          values[t] = value(t, tops[t]);
        }
        simt::store_four(to, values);
      }
    }

   private:
    // A value with the 48 lowest bits of `integer`.
    CFCK_DEVICE Word with_integer(unsigned t, std::uint64_t integer, std::uint32_t top) const {
      constexpr std::uint64_t kIntegers = (std::uint64_t{1} << 48) - 1;
      const Bits bits = packed >> (kWidth * t) & ((1u << kWidth) - 1);
      return value_of(bits << 48 | (integer & kIntegers), top);
    }
    CFCK_DEVICE Word value(unsigned t, std::uint32_t top) const {
      if constexpr (sizeof(Word) == 4) {
        // Mantissa and sign go to their places at once.
        const std::uint32_t mantissa = moved(Format::kLowBits - kWidth * t) & kRawMask;
        const std::uint32_t sign = moved(Format::kBits - kWidth * (t + 1)) & 0x80000000u;
        const auto low_half = static_cast<std::uint32_t>(low >> (16 * t)) & 0xffff;
        return (mantissa & ~std::uint32_t{0xffff}) | sign | top | low_half;
      } else {
        Bits bits = packed >> (kWidth * t) & ((1u << kWidth) - 1);
        if constexpr (kHighBits >= 8) {
          bits = bits << 8 | (bytes >> (8 * t) & 0xff);
        }
        return value_of(bits, top);
      }
    }
    // Two values of 16 bits, side by side: what is at the top of one, and at the bottom of the
    // other one, has the same way to go.
    template <unsigned number>
    CFCK_DEVICE std::uint32_t pair(const std::uint32_t* tops) const {
      constexpr unsigned kWay = 16 - kWidth;
      constexpr std::uint32_t kMiddle = std::uint32_t{kRawMask} << 16 | 0x8000;
      const std::uint32_t two = packed >> (2 * kWidth * number);
      const std::uint32_t high = tops[2 * number] | tops[2 * number + 1] << 16;
      return (two & kRawMask) | (two << kWay & kMiddle) | (two << 2 * kWay & 0x80000000u) | high;
    }
    // The packed bits, moved up, or down.
    CFCK_DEVICE std::uint32_t moved(int up) const { return up < 0 ? packed >> -up : packed << up; }

    static constexpr unsigned kHighBits = Format::kRawBits - Format::kLowBits;
    static constexpr unsigned kWidth = kHighBits % 8;
  };
};

}  // namespace cfck::codec
