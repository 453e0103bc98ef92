// Codes for values: for each lane the path through the trellis with the least sum of squared
// errors and weighed bits (Viterbi 1967; trellis-coded quantisation: Marcellin and Fischer
// 1990; with codes for both quantisers: Schwarz et al. 2021).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/direct/class_codes.hpp"
#include "codec/entropy/rans_table.hpp"
#include "codec/spectral/quantisers.hpp"

namespace cfck::codec {

// What each symbol counts, in squared steps, by quantiser.
struct SymbolWeights {
  float of[2][kRansSymbols] = {};
};

struct SearchRequest {
  std::span<const float> values;           // in steps; groups of 128 but for the last
  std::span<const GroupCode> groups;       // those that are all zero are left out
  const SymbolWeights* weights = nullptr;  // by table (SymbolCode); nullptr: nothing
  unsigned n_states = 8;                   // 1, 4 or 8
  unsigned n_lanes = 32;
};

// By value; those of groups of zeros are not written.
struct FoundCodes {
  std::vector<std::int32_t> codes;
  std::vector<std::uint8_t> quantisers;
  // Escapes have instead of a code the point itself.
  std::vector<std::uint8_t> is_escape;
};

void search_trellis(const SearchRequest& request, FoundCodes& found);

}  // namespace cfck::codec
