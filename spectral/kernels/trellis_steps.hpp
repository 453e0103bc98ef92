// The steps of the search for indices, value by value (spectral/spec.md, section 7). Devices share
// them.
#pragma once

#include <type_traits>
#include <utility>

#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/trellis_edges.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// Larger than the cost of any path.
inline constexpr float kNever = 1e30f;
// After this many coded groups the cost of the best path of a lane is subtracted from all its
// paths.
inline constexpr unsigned kGroupsBetweenLevels = 8;
inline constexpr unsigned kMaxSearchLanes = 128;

// The costs of paths that end in a state of a lane.
template <unsigned n_states>
using PathCosts = float[n_states][kMaxSearchLanes];

// A bit for each state: whether the best path into it comes from the higher one of two.
template <unsigned n_states>
using Decisions = std::conditional_t<n_states <= kMaxTableStates, std::uint8_t, std::uint64_t>;

// Constants shared by all values of a group.
struct GroupSteps {
  GroupSteps() = default;
  explicit GroupSteps(const GroupCode& group) : GroupSteps(kSymbolCodes.of[group.scale_bin]) {}
  CFCK_HD explicit GroupSteps(const SymbolCode& code)
      : low_bits(code.low_bits),
        table(code.table),
        limit(std::int32_t{code.reach} << code.low_bits),
        bound(2.0f * static_cast<float>(limit)),
        most{static_cast<float>(limit / 2), static_cast<float>((limit - 1) / 2)} {}

  // With one state, values escape from this magnitude on.
  CFCK_HD float alone_bound() const { return static_cast<float>(limit) + 0.5f; }

  unsigned low_bits = 0;
  unsigned table = 0;
  std::int32_t limit = 0;  // maximum magnitude of indices
  float bound = 0;         // values above, in steps, escape
  float most[2] = {};      // halves of the maximum indices of each parity
};

// Rounds half to even. Requires: -1 < x.
CFCK_HD inline float nearest_to(float x) { return x < 0x1p23f ? (x + 0x1p23f) - 0x1p23f : x; }

CFCK_HD inline float magnitude_of(float x) { return __builtin_fabsf(x); }

CFCK_HD inline std::int32_t with_sign(std::int32_t magnitude, float t) {
  return __builtin_signbit(t) ? -magnitude : magnitude;
}

// Returns the level that is nearest to t.
CFCK_HD inline std::int32_t escaped_level(float t) {
  return with_sign(static_cast<std::int32_t>(nearest_to(magnitude_of(t))), t);
}

CFCK_HD inline unsigned symbol_of(std::int32_t index, unsigned low_bits) {
  return static_cast<unsigned>((index >> low_bits) + static_cast<std::int32_t>(kSpectralZero));
}

struct IndexChoice {
  std::int32_t index;
  float cost;
};

// Finds the best index of a quantiser and a parity. Levels have magnitudes 4 half + 2 parity - q.
CFCK_HD inline IndexChoice choose_index(float t, unsigned q, unsigned parity,
                                        const GroupSteps& group, const SymbolWeights* weights) {
  const float a = magnitude_of(t);
  const float offset = static_cast<float>(2 * static_cast<int>(parity) - static_cast<int>(q));
  float half = nearest_to((a - offset) * 0.25f);
  half = half > 0.0f ? half : 0.0f;
  half = half < group.most[parity] ? half : group.most[parity];
  float level = 4.0f * half + offset;
  level = level > 0.0f ? level : 0.0f;
  const float error = a - level;
  IndexChoice choice{
      with_sign(2 * static_cast<std::int32_t>(half) + static_cast<std::int32_t>(parity), t),
      error * error};
  float zero = a * a;
  if (weights != nullptr) {
    choice.cost += weights->of[q][symbol_of(choice.index, group.low_bits)];
    zero += weights->of[q][kSpectralZero];
  }
  return parity == 0 && zero <= choice.cost ? IndexChoice{0, zero} : choice;
}

// The cost of the best index of each quantiser and parity.
struct ChoiceCosts {
  float of[2][2];
};

CFCK_HD inline ChoiceCosts cost_of_codes(float t, const GroupSteps& group,
                                         const SymbolWeights* weights) {
  const bool escapes = magnitude_of(t) > group.bound;
  ChoiceCosts cost;
  for (unsigned q = 0; q < 2; ++q) {
    for (unsigned parity = 0; parity < 2; ++parity) {
      cost.of[q][parity] =
          escapes ? (parity != 0 ? kNever : 0.0f) : choose_index(t, q, parity, group, weights).cost;
    }
  }
  return cost;
}

// Keeps the best path into a state; returns its decision.
template <unsigned n_states, unsigned pitch, std::size_t state>
CFCK_HD inline Decisions<n_states> advance_state(const ChoiceCosts& by_code, const float* costs,
                                                 float* next) {
  constexpr TrellisEdge kFirst = edge_into<n_states>(state, 0);
  constexpr TrellisEdge kSecond = edge_into<n_states>(state, 1);
  const float by_first =
      costs[kFirst.from * pitch] + by_code.of[quantiser_of<n_states>(kFirst.from)][kFirst.parity];
  const float by_second = costs[kSecond.from * pitch] +
                          by_code.of[quantiser_of<n_states>(kSecond.from)][kSecond.parity];
  next[state] = by_second < by_first ? by_second : by_first;
  return static_cast<Decisions<n_states>>(std::uint64_t{by_second < by_first} << state);
}

template <unsigned n_states, unsigned pitch, std::size_t... state>
CFCK_HD inline Decisions<n_states> advance_states(const ChoiceCosts& by_code, float* costs,
                                                  std::index_sequence<state...>) {
  float next[n_states];
  const auto decisions = static_cast<Decisions<n_states>>(
      (advance_state<n_states, pitch, state>(by_code, costs, next) | ...));
  ((costs[state * pitch] = next[state]), ...);
  return decisions;
}

// Advances a lane by a value: updates the costs of its paths, `pitch` apart; returns a bit for each
// state's decision.
template <unsigned n_states, unsigned pitch>
CFCK_HD Decisions<n_states> advance_value(float t, const GroupSteps& group,
                                          const SymbolWeights* weights, float* costs) {
  return advance_states<n_states, pitch>(cost_of_codes(t, group, weights), costs,
                                         std::make_index_sequence<n_states>());
}

// The result for a value; for escapes the index is 0.
struct FoundIndex {
  std::int32_t index;
  std::uint8_t symbol;
  std::uint8_t quantiser;
};

CFCK_HD inline FoundIndex found_index(bool escapes, std::int32_t index, unsigned q,
                                      const GroupSteps& group) {
  const unsigned symbol = escapes ? kSpectralEscape : symbol_of(index, group.low_bits);
  return {escapes ? 0 : index, static_cast<std::uint8_t>(symbol), static_cast<std::uint8_t>(q)};
}

CFCK_HD inline void store_found(const FoundIndex& found, const TrellisSearch& search,
                                std::size_t at) {
  search.symbols[at] = found.symbol;
  search.quantisers[at] = found.quantiser;
  search.indices[at] = found.index;
}

// Traces back along the path of a lane, which is in `state`.
template <unsigned n_states>
CFCK_HD FoundIndex take_value(float t, Decisions<n_states> decisions, const GroupSteps& group,
                              const SymbolWeights* weights, std::int32_t& state) {
  const TrellisEdge edge =
      edge_into<n_states>(static_cast<unsigned>(state), decisions >> state & 1);
  state = static_cast<std::int32_t>(edge.from);
  const unsigned q = quantiser_of<n_states>(edge.from);
  const bool escapes = magnitude_of(t) > group.bound;
  const IndexChoice choice = choose_index(escapes ? 0.0f : t, q, edge.parity, group, weights);
  return found_index(escapes, choice.index, q, group);
}

// Chooses an index with one state, where values are independent.
CFCK_HD inline std::int32_t choose_alone(float t, const GroupSteps& group,
                                         const SymbolWeights* weights) {
  const float a = magnitude_of(t);
  const float nearest = nearest_to(a);
  const auto best = with_sign(static_cast<std::int32_t>(nearest), t);
  if (weights == nullptr || best == 0) {
    return best;
  }
  const auto cost_of = [&](float level, std::int32_t index) {
    return (a - level) * (a - level) + weights->of[0][symbol_of(index, group.low_bits)];
  };
  const float nearer = nearest - 1.0f;
  const std::int32_t index = with_sign(static_cast<std::int32_t>(nearer), t);
  const float cost = cost_of(nearest, best);
  const float nearer_cost = cost_of(nearer, index);
  const std::int32_t better = nearer_cost <= cost ? index : best;
  return cost_of(0.0f, 0) <= (nearer_cost <= cost ? nearer_cost : cost) ? 0 : better;
}

CFCK_HD inline FoundIndex take_alone(float t, const GroupSteps& group,
                                     const SymbolWeights* weights) {
  const bool escapes = magnitude_of(t) >= group.alone_bound();
  return found_index(escapes, choose_alone(escapes ? 0.0f : t, group, weights), 0, group);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
