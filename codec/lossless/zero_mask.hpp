// The mask of a chunk with many zeros (codec/symboliser/spec.md, section 3): one
// bit per value, set where the value is hidden.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cfck/tensor.hpp"

namespace cfck::codec {

// Whether `mask` has n_masked bits set and none after bit n_values - 1.
bool is_mask_of(ByteView mask, std::size_t n_values, std::size_t n_masked);

// Puts values and hidden zeros together; bit k of `signs`, if there are any, is
// the sign of hidden value k. Requires: is_mask_of().
template <class Word>
void spread_values(ByteView mask, std::size_t n_values, const std::byte* values, ByteView signs,
                   std::byte* out) {
  std::size_t k = 0;  // hidden values so far
  for (std::size_t i = 0; i < n_values; ++i) {
    const bool hidden = (static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1) != 0;
    Word value = 0;
    if (hidden) {
      if (!signs.empty() && (static_cast<unsigned>(signs[k / 8]) >> (k % 8) & 1) != 0) {
        value = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
      }
      ++k;
    } else {
      std::memcpy(&value, values, sizeof(Word));
      values += sizeof(Word);
    }
    std::memcpy(out + i * sizeof(Word), &value, sizeof(Word));
  }
}

// The inverse: the mask, its signs where `with_signs` hides -0 too, and the
// remaining values. `mask` and `signs` must be cleared.
template <class Word>
void gather_values(const std::byte* values, std::size_t n_values, bool with_signs, std::byte* mask,
                   std::byte* signs, std::byte* remaining) {
  constexpr Word kMinusZero = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  std::size_t k = 0;
  for (std::size_t i = 0; i < n_values; ++i) {
    Word value;
    std::memcpy(&value, values + i * sizeof(Word), sizeof(Word));
    const bool minus = with_signs && value == kMinusZero;
    if (value == 0 || minus) {
      mask[i / 8] |= static_cast<std::byte>(1u << (i % 8));
      if (minus) {
        signs[k / 8] |= static_cast<std::byte>(1u << (k % 8));
      }
      ++k;
    } else {
      std::memcpy(remaining, &value, sizeof(Word));
      remaining += sizeof(Word);
    }
  }
}

}  // namespace cfck::codec
