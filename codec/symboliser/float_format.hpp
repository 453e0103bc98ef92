// The bit fields of the float types (codec/symboliser/spec.md, section 2).
#pragma once

#include <cstdint>

#include "cfck/dtype.hpp"

namespace cfck::codec {

// `kLowBits` of the mantissa are stored as integers where a group has no trailing zero bits.
// `kHasSpecials`: an exponent of all ones means infinity or NaN. `kSymbolMantissaBits` go into the
// symbol: two with the entropy stage `zstd`, which codes 62 symbols in fewer bits than 32 and one
// bit more sent raw; one with `rans`.
template <class WordType, unsigned exponent_bits, unsigned mantissa_bits, unsigned low_bits,
          bool has_specials, unsigned symbol_mantissa_bits = 2>
struct FloatFormat {
  using Word = WordType;
  static constexpr unsigned kExponentBits = exponent_bits;
  static constexpr unsigned kMantissaBits = mantissa_bits;
  static constexpr unsigned kLowBits = low_bits;
  static constexpr bool kHasSpecials = has_specials;

  static constexpr unsigned kMaxExponent = (1u << exponent_bits) - 1;
  static constexpr unsigned kSymbolMantissaBits = symbol_mantissa_bits;
  // The mantissa that no symbol covers, and the sign above it.
  static constexpr unsigned kRawMantissaBits = mantissa_bits - symbol_mantissa_bits;
  static constexpr unsigned kRawBits = 1 + kRawMantissaBits;

  // Symbols of 15 exponents, then these two.
  static constexpr unsigned kSymbolZero = 15u << symbol_mantissa_bits;
  static constexpr unsigned kSymbolEscape = kSymbolZero + 1;
  static constexpr unsigned kBits = 1 + exponent_bits + mantissa_bits;
  static_assert(kBits == 8 * sizeof(Word));
};

// The format with the entropy stage `rans`, which has 32 symbols.
template <class F>
using With32Symbols = FloatFormat<typename F::Word, F::kExponentBits, F::kMantissaBits, F::kLowBits,
                                  F::kHasSpecials, 1>;

using FormatF64 = FloatFormat<std::uint64_t, 11, 52, 48, true>;
using FormatF32 = FloatFormat<std::uint32_t, 8, 23, 16, true>;
using FormatBf16 = FloatFormat<std::uint16_t, 8, 7, 0, true>;
using FormatF16 = FloatFormat<std::uint16_t, 5, 10, 0, true>;
using FormatE5m2 = FloatFormat<std::uint8_t, 5, 2, 0, true>;
using FormatE5m2Fnuz = FloatFormat<std::uint8_t, 5, 2, 0, false>;
using FormatE4m3 = FloatFormat<std::uint8_t, 4, 3, 0, false>;

// A list of types, to apply a template to each.
template <class... Formats>
struct FormatList {};
using AllFormats =
    FormatList<FormatF64, FormatF32, FormatBf16, FormatF16, FormatE5m2, FormatE5m2Fnuz, FormatE4m3,
               With32Symbols<FormatF64>, With32Symbols<FormatF32>, With32Symbols<FormatBf16>,
               With32Symbols<FormatF16>, With32Symbols<FormatE5m2>, With32Symbols<FormatE5m2Fnuz>,
               With32Symbols<FormatE4m3>>;

template <class Format>
struct FormatTag {
  using type = Format;
};

// Calls `visitor(FormatTag<Format>{})` for a type that the symboliser supports, `otherwise()` for
// every other.
template <class Visitor, class Otherwise>
auto visit_format(DType dtype, Visitor&& visitor, Otherwise&& otherwise) {
  switch (dtype) {
    case DType::kF64:
      return visitor(FormatTag<FormatF64>{});
    case DType::kF32:
    case DType::kC64:
      return visitor(FormatTag<FormatF32>{});
    case DType::kBF16:
      return visitor(FormatTag<FormatBf16>{});
    case DType::kF16:
      return visitor(FormatTag<FormatF16>{});
    case DType::kF8E5M2:
      return visitor(FormatTag<FormatE5m2>{});
    case DType::kF8E5M2Fnuz:
      return visitor(FormatTag<FormatE5m2Fnuz>{});
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
      return visitor(FormatTag<FormatE4m3>{});
    default:
      return otherwise();
  }
}

}  // namespace cfck::codec
