// The bits of levels by scale bin, from the static frequency tables of the stage `rans`
// (codec/entropy/rans.md, section 3), for one state.
#pragma once

#include <cstdint>

#include "spectral/kernels/kernels.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Symbols of levels without their low bits, and the one of zero.
inline constexpr float kRateReach = 15;
inline constexpr std::int32_t kRateZero = 16;

struct RateTables {
  // Entry h + 16 is for the symbol of high bits h, its low bits included; those that bins do not
  // reach, and entry 0, are escapes.
  float bits[kMaxSpectralBin + 1][32];
  // Differences between neighbours for each level; beyond the reach of a bin, those at its ends.
  float slopes[kMaxSpectralBin + 1][32];
  float scales[kMaxSpectralBin + 1];  // 2^-low bits
};

// Returns the tables of a family, 0 to 7. Bin 0, of groups without symbols, has those of bin 1.
const RateTables& rate_tables(unsigned family);

}  // namespace cfck::spectral
