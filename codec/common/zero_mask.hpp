// The mask of a chunk with many zeros (codec/symboliser/spec.md, section 3): one bit per value, set
// where the value is masked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cfck/tensor.hpp"

namespace cfck::codec {

// True if `mask` has n_masked bits set and none after bit n_values - 1.
bool is_mask_of(ByteView mask, std::size_t n_values, std::size_t n_masked);

// Interleaves values and masked zeros; bit k of `signs`, if there are any, is the sign of
// masked value k. `values` must be readable one value past its end. Requires:
// is_mask_of().
template <class Word>
void spread_values(ByteView mask, std::size_t n_values, const std::byte* values, ByteView signs,
                   std::byte* out) {
  constexpr unsigned kSignBit = 8 * sizeof(Word) - 1;
  std::size_t n_unmasked = 0;
  for (std::size_t i = 0; i < n_values; ++i) {
    const bool masked = (static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1) != 0;
    Word value;
    std::memcpy(&value, values + n_unmasked * sizeof(Word), sizeof(Word));
    Word zero = 0;
    if (!signs.empty() && masked) {
      const std::size_t k = i - n_unmasked;
      zero = static_cast<Word>((static_cast<Word>(signs[k / 8]) >> (k % 8) & 1) << kSignBit);
    }
    value = masked ? zero : value;
    std::memcpy(out + i * sizeof(Word), &value, sizeof(Word));
    n_unmasked += masked ? 0 : 1;
  }
}

// The inverse of spread_values(): writes the mask, its signs where `with_signs` masks -0 too,
// and the remaining values, which need space for one more. `mask` and `signs` must be
// cleared.
template <class Word>
void gather_values(const std::byte* values, std::size_t n_values, bool with_signs, std::byte* mask,
                   std::byte* signs, std::byte* remaining) {
  constexpr Word kMinusZero = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  std::size_t n_unmasked = 0;
  for (std::size_t i = 0; i < n_values; ++i) {
    Word value;
    std::memcpy(&value, values + i * sizeof(Word), sizeof(Word));
    const bool minus = with_signs && value == kMinusZero;
    const bool masked = value == 0 || minus;
    mask[i / 8] |= static_cast<std::byte>((masked ? 1u : 0u) << (i % 8));
    if (minus) {
      const std::size_t k = i - n_unmasked;
      signs[k / 8] |= static_cast<std::byte>(1u << (k % 8));
    }
    std::memcpy(remaining + n_unmasked * sizeof(Word), &value, sizeof(Word));
    n_unmasked += masked ? 0 : 1;
  }
}

}  // namespace cfck::codec
