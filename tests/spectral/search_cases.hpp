// Values to search indices for, and the results, for the tests of the spectral codec's search.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "codec/entropy/rans/tables/static_tables.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/lane_search.hpp"

namespace cfck::spectral {

// Values in steps, the groups they are in, and weights.
struct SearchCase {
  std::vector<float> values;
  std::vector<GroupCode> groups;
  std::vector<SymbolWeights> weights;
  bool is_weighed = false;
  unsigned n_states = 8;
  unsigned n_lanes = 32;
};

inline SearchCase random_case(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  SearchCase made;
  made.n_states = std::array{1u, 4u, 8u, 64u}[below(4)];
  made.n_lanes = 32u << below(3);
  made.is_weighed = below(2) != 0;
  made.values.resize(1 + below(3000));
  made.groups.resize((made.values.size() + kGroupSize - 1) / kGroupSize);
  std::normal_distribution<float> normal;
  const unsigned base = 1 + below(below(4) == 0 ? kMaxSpectralBin : 50);
  for (std::size_t g = 0; g < made.groups.size(); ++g) {
    const unsigned scale_bin = std::min(base + below(6), kMaxSpectralBin);
    made.groups[g] = {static_cast<std::uint16_t>(scale_bin), 0,
                      below(8) == 0 ? GroupKind::kAllZero : GroupKind::kValues};
    const float scale = std::exp2((static_cast<float>(scale_bin) - 26) / 4);
    const std::size_t end = std::min(made.values.size(), (g + 1) * kGroupSize);
    for (std::size_t i = g * kGroupSize; i < end; ++i) {
      made.values[i] = std::clamp(normal(random) * scale, -0x1p30f, 0x1p30f);
      switch (below(64)) {
        case 0:
          made.values[i] = below(2) != 0 ? 0.0f : -0.0f;
          break;
        case 1:  // half way between levels
          made.values[i] = std::nearbyint(made.values[i]) + 0.5f;
          break;
        case 2:
          made.values[i] *= 40;
          break;
        case 3:
          made.values[i] = below(2) != 0 ? 0x1p30f : -0x1p30f;
          break;
        default:
          break;
      }
    }
  }
  made.weights.resize(kDirectTables);
  for (SymbolWeights& table : made.weights) {
    for (auto& of_quantiser : table.of) {
      for (float& weight : of_quantiser) {
        weight = static_cast<float>(below(1000)) * 0.001f;
      }
    }
  }
  return made;
}

struct FoundIndices {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> quantisers;
  std::vector<std::int32_t> indices;  // 0 in groups without low bits
  std::vector<std::byte> path;
  std::vector<std::byte> raw;
  std::vector<std::uint8_t> decisions;  // of at most 8 states: others are in any order

  bool operator==(const FoundIndices&) const = default;
};

// Returns the results of `action`, which gets a search; planes are written by the kernels.
template <class Action>
FoundIndices found_by(const SpectralKernels& kernels, const SearchCase& made, Action&& action) {
  const std::size_t n_room = made.groups.size() * kGroupSize;
  FoundIndices found;
  found.symbols.resize(n_room);
  found.quantisers.resize(n_room);
  found.indices.resize(n_room);
  found.path.resize(n_room / 8);
  found.raw.resize(n_room * 4);
  found.decisions.resize(n_room * decision_bytes(made.n_states));
  TrellisSearch search;
  search.values = made.values.data();
  search.n_values = made.values.size();
  search.groups = made.groups.data();
  search.weights = made.is_weighed ? made.weights.data() : nullptr;
  search.n_states = made.n_states;
  search.n_lanes = made.n_lanes;
  search.symbols = found.symbols.data();
  search.quantisers = found.quantisers.data();
  search.indices = found.indices.data();
  search.decisions = found.decisions.data();
  action(search);
  kernels.write_planes(search, found.path.data(), found.raw.data());
  if (made.n_states > kMaxTableStates) {
    found.decisions.clear();
  }
  std::size_t coded = 0;
  for (const GroupCode& group : made.groups) {
    if (group.kind == GroupKind::kAllZero) {
      continue;
    }
    if (kSymbolCodes.of[group.scale_bin].low_bits == 0) {
      const auto first = found.indices.begin() + static_cast<std::ptrdiff_t>(coded * kGroupSize);
      std::fill_n(first, kGroupSize, 0);
    }
    ++coded;
  }
  return found;
}

inline FoundIndices found_by(const SpectralKernels& kernels, const SearchCase& made) {
  return found_by(kernels, made, [&](const TrellisSearch& search) { kernels.search(search); });
}

// Calls action(constant) with the number of states.
template <class Action>
void with_states(unsigned n_states, Action&& action) {
  switch (n_states) {
    case 1:
      return action(std::integral_constant<unsigned, 1>());
    case 4:
      return action(std::integral_constant<unsigned, 4>());
    case 8:
      return action(std::integral_constant<unsigned, 8>());
    default:
      return action(std::integral_constant<unsigned, 64>());
  }
}

// Lanes in an order of their own, as threads of a device may be.
inline std::vector<unsigned> shuffled_lanes(unsigned n_lanes, std::mt19937& random) {
  std::vector<unsigned> lanes(n_lanes);
  std::iota(lanes.begin(), lanes.end(), 0u);
  std::shuffle(lanes.begin(), lanes.end(), random);
  return lanes;
}

// Returns the results of the lanes one after another: the reference.
inline FoundIndices found_by_lanes(const SearchCase& made, std::mt19937& random) {
  return found_by(spectral_kernels(), made, [&](const TrellisSearch& search) {
    with_states(made.n_states, [&](auto n_states) {
      for (const unsigned lane : shuffled_lanes(made.n_lanes, random)) {
        if (made.is_weighed) {
          LaneSearch<n_states, true>(search, lane).run();
        } else {
          LaneSearch<n_states, false>(search, lane).run();
        }
      }
    });
  });
}

}  // namespace cfck::spectral
