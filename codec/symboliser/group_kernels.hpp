// Kernels for one group of 128 values (codec/symboliser/spec.md). They are templates over a float
// format and a lane policy, without allocation or floating point.
//
// A group is always 128 values: the last one of a chunk is filled up with zeros.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/cpu/bit_width.hpp"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/lanes.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The largest exponent in the window of a bin.
CFCK_HD constexpr int window_top(std::uint32_t scale_bin) {
  return static_cast<int>(scale_bin / kPhases) - 4;
}

struct GroupAnalysis {
  bool all_zero = true;    // true if every bit of every value is 0
  bool has_signs = false;  // some value is negative
  bool has_bin = false;    // some finite value is not zero
  unsigned n_finite = 0;   // number of finite values
  std::uint32_t scale_bin = 0;
  unsigned trailing_zero_bits = 0;  // low raw bits that are zero in every value
};

// floor(4 * log2(mean / 2^8)) for a mean of codes from 2^8 to below 2^16, given
// 128 * mean.
CFCK_HD constexpr std::uint32_t quarter_octaves(std::uint32_t scaled_mean) {
  const unsigned top = bit_width_of(scaled_mean) - 1;
  const std::uint32_t fraction = scaled_mean >> (top - 15);
  // The limits are 2^15 times 2^(1/4), 2^(1/2), 2^(3/4), rounded up.
  const unsigned quarter = (fraction >= 38968) + (fraction >= 46341) + (fraction >= 55109);
  return 4 * (top - 15) + quarter;
}

template <class Format>
CFCK_HD constexpr unsigned count_trailing_zero_bits(typename Format::Word bits_in_use) {
  unsigned count = 0;
  while (count + 1 < Format::kRawBits && ((bits_in_use >> count) & 1) == 0) {
    ++count;
  }
  return count;
}

// Holds exponent and top seven mantissa bits, plus one; 0 for values that say nothing about the
// scale.
template <class Format>
using MagnitudeCode = std::conditional_t<Format::kExponentBits <= 8, std::uint16_t, std::uint32_t>;

template <class Format>
CFCK_HD constexpr MagnitudeCode<Format> magnitude_code(typename Format::Word value) {
  using Word = typename Format::Word;
  using Code = MagnitudeCode<Format>;
  constexpr unsigned kMantissa = Format::kMantissaBits;
  constexpr Word kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  const Word magnitude = static_cast<Word>(value & kMagnitude);
  const bool special = Format::kHasSpecials &&
                       magnitude >= static_cast<Word>(Word{Format::kMaxExponent} << kMantissa);
  Code code;
  if constexpr (kMantissa >= 7) {
    code = static_cast<Code>(magnitude >> (kMantissa - 7));
  } else {
    code = static_cast<Code>(static_cast<Code>(magnitude) << (7 - kMantissa));
  }
  return special || magnitude == 0 ? Code{0} : static_cast<Code>(code + 1);
}

// The code of the mean's summand: one of its top exponent is 2^15 and more; 0 for values that say
// nothing about the scale, or too little.
template <class Code>
CFCK_HD constexpr Code linear_code(Code code, Code top_exponent) {
  const Code less = static_cast<Code>(code - 1);  // a code of zero wraps around to the largest one
  const Code distance = static_cast<Code>(top_exponent - (less >> 7));
  const Code linear = static_cast<Code>((0x80 | (less & 0x7f)) << 8);
  return distance > 15 ? Code{0} : static_cast<Code>(linear >> distance);
}

// Specification, section 4: finds bin and trailing zero bits.
template <class Format, class Lanes>
CFCK_HD GroupAnalysis analyse_group(const typename Format::Word* values) {
  using Word = typename Format::Word;
  using Code = MagnitudeCode<Format>;
  GroupAnalysis result;
  const Word in_use = Lanes::template reduce_or<Word>([&](unsigned i) { return values[i]; });
  result.all_zero = in_use == 0;
  if (result.all_zero) {
    return result;
  }
  result.has_signs = (in_use >> (Format::kBits - 1)) != 0;
  result.trailing_zero_bits = count_trailing_zero_bits<Format>(in_use);

  typename Lanes::template Reg<Code> codes;
  Lanes::each([&](unsigned i) { codes[i] = magnitude_code<Format>(values[i]); });
  const Code top_code = Lanes::template reduce_max<Code>([&](unsigned i) { return codes[i]; });
  if (top_code == 0) {
    return result;
  }
  const Code top_exponent = static_cast<Code>((top_code - 1) >> 7);
  const auto n_values = Lanes::template reduce_sum<Code>(
      [&](unsigned i) { return static_cast<Code>(codes[i] != 0 ? 1 : 0); });
  Lanes::each([&](unsigned i) { codes[i] = linear_code<Code>(codes[i], top_exponent); });
  const auto sum = Lanes::template reduce_sum<std::uint32_t>([&](unsigned i) { return codes[i]; });
  result.has_bin = true;
  result.n_finite = n_values;
  result.scale_bin = 4 * top_exponent + quarter_octaves(sum * kGroupSize / n_values);
  return result;
}

// The symbol of the first value in the window of a bin.
template <class Format>
CFCK_HD constexpr typename Format::Word first_symbol(std::uint32_t scale_bin) {
  return static_cast<typename Format::Word>(window_top(scale_bin) *
                                            (1 << Format::kSymbolMantissaBits));
}

// Specification, section 5: returns the symbol of a value, and its raw bits, the sign and the low
// mantissa bits, which are zero where it escapes. `first` is first_symbol() of its group.
template <class Format>
CFCK_HD constexpr std::uint8_t split_value(typename Format::Word value, typename Format::Word first,
                                           typename Format::Word& raw) {
  using Word = typename Format::Word;
  constexpr unsigned kRawMantissa = Format::kRawMantissaBits;
  constexpr Word kTopMantissa = static_cast<Word>((1 << Format::kSymbolMantissaBits) - 1);
  constexpr Word kRawMask = static_cast<Word>((Word{1} << kRawMantissa) - 1);
  // The field is the exponent and the top of the mantissa, which increases in a symbol while the
  // exponent decreases. Differences that wrap around stay above all symbols of the window, in
  // eight bits too.
  const Word field = static_cast<Word>(static_cast<Word>(value << 1) >> (kRawMantissa + 1));
  const Word symbol = static_cast<Word>(first - (field & static_cast<Word>(~kTopMantissa)) +
                                        (field & kTopMantissa));
  const Word other = field == 0 ? Format::kSymbolZero : Format::kSymbolEscape;
  const auto chosen =
      static_cast<std::uint8_t>(field != 0 && symbol < Format::kSymbolZero ? symbol : other);
  const Word sign = static_cast<Word>((value >> (Format::kBits - 1)) << kRawMantissa);
  const Word kept = static_cast<Word>((value & kRawMask) | sign);
  raw = chosen == Format::kSymbolEscape ? Word{0} : kept;
  return chosen;
}

// Splits all values of a group. Returns whether any escapes.
template <class Format, class Lanes>
CFCK_HD bool split_group(const typename Format::Word* values, std::uint32_t scale_bin,
                         std::uint8_t* symbols, typename Format::Word* raw) {
  const typename Format::Word first = first_symbol<Format>(scale_bin);
  Lanes::each([&](unsigned i) { symbols[i] = split_value<Format>(values[i], first, raw[i]); });
  return Lanes::template reduce_max<std::uint8_t>([&](unsigned i) { return symbols[i]; }) ==
         Format::kSymbolEscape;
}

// The inverse of split_group() without escapes; returns whether any symbol is an escape or
// above. The exponent is taken modulo 2^kExponentBits, so that no bin and symbol can reach the
// sign.
template <class Format, class Lanes>
CFCK_HD bool merge_group(const std::uint8_t* symbols, std::uint32_t scale_bin,
                         const typename Format::Word* raw, typename Format::Word* values) {
  using Word = typename Format::Word;
  constexpr unsigned kRawMantissa = Format::kRawMantissaBits;
  constexpr unsigned kInSymbol = Format::kSymbolMantissaBits;
  constexpr Word kTopMantissa = static_cast<Word>((1 << kInSymbol) - 1);
  constexpr Word kRawMask = static_cast<Word>((Word{1} << kRawMantissa) - 1);
  constexpr Word kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  const Word first = static_cast<Word>(window_top(scale_bin) * (1 << kInSymbol));
  Lanes::each([&](unsigned i) {
    const Word symbol = symbols[i];
    const Word field = static_cast<Word>(first - (symbol & static_cast<Word>(~kTopMantissa)) +
                                         (symbol & kTopMantissa));
    const Word top = static_cast<Word>(static_cast<Word>(field << kRawMantissa) & kMagnitude);
    const Word sign =
        static_cast<Word>(static_cast<Word>(raw[i] >> kRawMantissa) << (Format::kBits - 1));
    const Word low = static_cast<Word>((raw[i] & kRawMask) | sign);
    values[i] = static_cast<Word>(symbol >= Format::kSymbolZero ? low : low | top);
  });
  return Lanes::template reduce_max<std::uint8_t>([&](unsigned i) { return symbols[i]; }) >=
         Format::kSymbolEscape;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
