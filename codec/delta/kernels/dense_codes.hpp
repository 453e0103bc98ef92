// Symbols and raw bits of the differences of dense classes (spec.md, section 5), one difference
// after another: the reference.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/raw_writer.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Magnitudes less 1 that have the same top bits, with n_bits bits below these.
struct DenseBucket {
  std::uint64_t top = 0;
  unsigned n_bits = 0;
};

// The bucket of a symbol that is neither 0 nor the escape, in a class with this width of low bits.
constexpr DenseBucket dense_bucket(unsigned symbol, unsigned low_width) {
  const unsigned b = symbol - 1;
  const unsigned r = b < 2 ? 0 : b / 2 - 1;
  return {b < 2 ? b : 2 + b % 2, r + low_width};
}

// The symbol of a difference that is not 0.
constexpr unsigned dense_symbol(std::uint64_t magnitude, unsigned low_width) {
  const std::uint64_t v = (magnitude - 1) >> low_width;
  const auto length = static_cast<unsigned>(std::bit_width(v));
  if (length < 2) {
    return 1 + static_cast<unsigned>(v);
  }
  if (length > kMaxDenseLength) {
    return kDenseEscape;
  }
  return 1 + 2 * (length - 1) + static_cast<unsigned>(v >> (length - 2) & 1);
}

template <class Word>
void code_serially(const std::byte* differences, std::size_t n, const UnitWords<Word>& words,
                   unsigned low_width, DenseOutput& out) {
  RawWriter raw(out.raw);
  for (std::size_t i = 0; i < n; ++i) {
    const auto difference = load_word<Word>(differences + i * sizeof(Word));
    if (difference == 0) {
      *out.symbols++ = 0;
      continue;
    }
    const std::uint64_t magnitude = words.magnitude(difference);
    const unsigned symbol = dense_symbol(magnitude, low_width);
    *out.symbols++ = static_cast<std::uint8_t>(symbol);
    if (symbol == kDenseEscape) [[unlikely]] {
      std::memcpy(out.escapes, &difference, sizeof(difference));
      out.escapes += sizeof(difference);
      continue;
    }
    const unsigned n_bits = dense_bucket(symbol, low_width).n_bits;
    raw.put_signed(words.is_negative(difference),
                   (magnitude - 1) & ((std::uint64_t{1} << n_bits) - 1), n_bits);
  }
  out.raw = raw.now();
}

// What the symbols of a class stand for. Those that are larger than all units have a magnitude
// that no unit has.
struct DenseSymbols {
  std::array<std::uint64_t, 32> magnitude{};  // the smallest
  std::array<std::uint8_t, 32> n_raw{};       // with the sign

  explicit DenseSymbols(unsigned low_width) {
    for (unsigned s = 1; s < kDenseEscape; ++s) {
      const DenseBucket bucket = dense_bucket(s, low_width);
      const unsigned n_top = static_cast<unsigned>(std::bit_width(bucket.top));
      const bool is_too_large = n_top + bucket.n_bits >= 64;
      magnitude[s] = is_too_large ? ~std::uint64_t{0} : (bucket.top << bucket.n_bits) + 1;
      n_raw[s] = static_cast<std::uint8_t>(is_too_large ? 1 : bucket.n_bits + 1);
    }
  }
};

// At least the 57 bits from `position` on.
inline std::uint64_t raw_bits_at(const DenseInput& in, std::uint64_t position) {
  std::uint64_t word;
  std::memcpy(&word, in.raw + (position >> 3), sizeof(word));
  return word >> (position & 7);
}

template <class Word>
bool decode_serially(const std::uint8_t* symbols, std::size_t n, const UnitWords<Word>& words,
                     const DenseSymbols& table, DenseInput& in, std::byte* differences) {
  bool fits = true;
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned symbol = symbols[i];
    Word difference;
    if (symbol == kDenseEscape) [[unlikely]] {
      std::memcpy(&difference, in.escapes, sizeof(difference));
      in.escapes += sizeof(difference);
      fits = fits && difference <= words.mask;
    } else {
      const unsigned n_raw = table.n_raw[symbol];
      std::uint64_t bits = raw_bits_at(in, in.position);
      const bool is_negative = n_raw != 0 && (bits & 1) != 0;
      bits >>= 1;
      if (n_raw > kMostRawAtOnce) [[unlikely]] {
        bits = (bits & 0xffffffffu) | raw_bits_at(in, in.position + 33) << 32;
      }
      const std::uint64_t low = n_raw == 0 ? 0 : bits & ((std::uint64_t{1} << (n_raw - 1)) - 1);
      const std::uint64_t magnitude = table.magnitude[symbol] + low;
      fits = fits && magnitude <= words.sign;
      difference = words.with_sign(static_cast<Word>(magnitude), is_negative);
      in.position += n_raw;
    }
    std::memcpy(differences + i * sizeof(Word), &difference, sizeof(difference));
  }
  return fits;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
