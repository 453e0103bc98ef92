// The two quantisers of the spectral codec (spectral/spec.md, section 4). Their reconstruction
// levels are multiples of the step: those of the first are the even ones, those of the second zero
// and the odd ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/common/trellis.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Returns the level of an index, in steps. `quantiser` is 0 or 1. Requires: |index| <=
// kMaxSpectralCode.
constexpr std::int32_t level_of(std::int32_t index, unsigned quantiser) {
  const std::int32_t sign = (index > 0) - (index < 0);
  return 2 * index - (quantiser != 0 ? sign : 0);
}

inline constexpr std::int32_t kMaxSpectralCode = (1 << 30) - 1;

// Symbols are indices without their low bits, offset, or the escape; so their parity is that of the
// index where there are no low bits.
inline constexpr unsigned kSpectralZero = 16;
inline constexpr unsigned kSpectralEscape = 0;

// Number of lane sets for a chunk of n values. Fewer than other codecs take: at a bit or two for
// each value the ends of lanes matter, and there are few raw bits for them to carry.
constexpr unsigned spectral_lane_sets(std::size_t n_values) {
  return n_values < 65536 ? 1 : n_values < 131072 ? 2 : 4;
}

// Returns nullptr for one state, which has one quantiser: all multiples of the step.
constexpr const Trellis* trellis_of(unsigned n_states) {
  return n_states == 4    ? &kTrellis4
         : n_states == 8  ? &kTrellis8
         : n_states == 64 ? &kTrellis64
                          : nullptr;
}

// Bytes that a search stores for a value: a bit for each state.
constexpr std::size_t decision_bytes(unsigned n_states) {
  return n_states <= kMaxTableStates ? 1 : n_states / 8;
}

}  // namespace cfck::spectral
