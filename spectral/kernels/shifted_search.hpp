// The search for indices with kShiftedStates states: more than there are registers. Some groups are
// batched, so that the costs of a few lanes stay in the nearest cache for a while.
#pragma once

#include "spectral/kernels/choice_lanes.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// Advances the costs of some lanes by a value. Decisions are two words for each lane: those of all
// lanes for the lower half of the states, then those for the upper half.
template <bool is_weighed>
CFCK_INLINE void advance_shifted(Floats t, const GroupLanes& group, const SymbolWeights* weights,
                                 const Floats (&costs)[kShiftedStates],
                                 Floats (&next)[kShiftedStates], std::uint8_t* decisions) {
  constexpr const TrellisEdges<kShiftedStates>& kEdges = kTrellisEdges<kShiftedStates>;
  const IndexCosts by_code = costs_of_indices<is_weighed>(t, group, weights);
  unrolled<2>([&](auto half) __attribute__((always_inline)) {
    Ints made = {};
    unrolled<32>([&](auto bit) __attribute__((always_inline)) {
      constexpr unsigned state = 32 * half + bit;
      constexpr unsigned first = kEdges.from[state][0];
      constexpr unsigned second = kEdges.from[state][1];
      const Floats by_first = costs[first] + by_code.of[first % 2][kEdges.parity[state][0]];
      const Floats by_second = costs[second] + by_code.of[second % 2][kEdges.parity[state][1]];
      made = with_bits(is_less(by_second, by_first), made, static_cast<std::int32_t>(1u << bit));
      next[state] = lower_of(by_second, by_first);
    });
    __builtin_memcpy(decisions + half * sizeof(made), &made, sizeof(made));
  });
}

// The edges into the states of some lanes: parities, and whether the second quantiser was chosen.
struct BackStep {
  Ints parity;
  Ints second;
};

CFCK_INLINE BackStep step_back_shifted(const std::uint8_t* decisions, Ints& state) {
  Ints low, high;
  __builtin_memcpy(&low, decisions, sizeof(low));
  __builtin_memcpy(&high, decisions + sizeof(low), sizeof(high));
  const Ints second = state >> kTopStateBit;
  const Ints edge = select(is_zero(second), low, high) >> (state & 31) & 1;
  const Ints even = state ^ (-second & static_cast<int>(kTableTaps));
  const Ints parity = edge ^ (even >> kFirstEdgeBit & 1);
  state = 2 * (even ^ (-parity & static_cast<int>(kPathTaps))) + second;
  return {parity, second};
}

// Whole groups that are still to be advanced.
class ShiftedGroups {
 public:
  struct Group {
    const float* values;
    GroupSteps steps;
    const SymbolWeights* weights;
    std::uint8_t* decisions;
  };

  // Requires: not more than kGroupsBetweenLevels wait; low bits are at most kMaxVectorLowBits.
  void append(const Group& group) { groups_[n_groups_++] = group; }

  template <bool is_weighed>
  void advance(unsigned n_lanes, PathCosts<kShiftedStates>& all_costs) {
    for (unsigned lane = 0; n_groups_ != 0 && lane < n_lanes; lane += kSearchLanes) {
      Floats costs[2][kShiftedStates];
      for (unsigned state = 0; state < kShiftedStates; ++state) {
        costs[0][state] = load_lanes<Floats>(all_costs[state] + lane);
      }
      unsigned at = 0;
      for (unsigned g = 0; g < n_groups_; ++g) {
        const Group& group = groups_[g];
        const GroupLanes steps(group.steps);
        for (unsigned i = lane; i < kGroupSize; i += n_lanes, at ^= 1) {
          advance_shifted<is_weighed>(load_lanes<Floats>(group.values + i), steps, group.weights,
                                      costs[at], costs[at ^ 1], group.decisions + 8 * i);
        }
      }
      for (unsigned state = 0; state < kShiftedStates; ++state) {
        store_lanes(costs[at][state], all_costs[state] + lane);
      }
    }
    n_groups_ = 0;
  }

 private:
  Group groups_[kGroupsBetweenLevels];
  unsigned n_groups_ = 0;
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
