// The best indices of values of some lanes, as choose_index() finds them.
#pragma once

#include "spectral/kernels/search_lanes.hpp"
#include "spectral/kernels/trellis_steps.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// The limits of a group of values, in vectors.
struct GroupLanes {
  explicit GroupLanes(const GroupSteps& group)
      : low_bits(group.low_bits),
        bound(all_of(group.bound)),
        most{all_of(group.most[0]), all_of(group.most[1])} {}

  unsigned low_bits;
  Floats bound;
  Floats most[2];
};

struct LaneChoice {
  Ints index;
  Floats cost;
};

// Chooses indices of values with magnitudes a and signs. `is_even`: where the parity is 0.
template <bool is_weighed>
CFCK_INLINE LaneChoice choose_indices(Floats a, Ints sign, Floats offset, Floats most, Ints parity,
                                      SearchMask is_even, const GroupLanes& group,
                                      const float* weights) {
  const Floats zeros = {};
  const Floats half = lower_of(higher_of(nearest_to((a - offset) * 0.25f), zeros), most);
  const Floats level = higher_of(4.0f * half + offset, zeros);
  const Floats error = a - level;
  Floats cost = error * error;
  Floats zero = a * a;
  Ints index = to_ints(half);
  index = ((index + index + parity) ^ sign) - sign;
  if constexpr (is_weighed) {
    const Ints high = index >> static_cast<int>(group.low_bits);
    cost += look_up(weights, high + static_cast<int>(kSpectralZero));
    zero += weights[kSpectralZero];
  }
  const SearchMask is_zero_better = both(is_even, neither(is_less(cost, zero)));
  return {select(is_zero_better, Ints{}, index), select(is_zero_better, zero, cost)};
}

// The cost of the best index of each quantiser and parity.
struct IndexCosts {
  Floats of[2][2];
};

template <bool is_weighed>
CFCK_INLINE IndexCosts costs_of_indices(Floats t, const GroupLanes& group,
                                        const SymbolWeights* weights) {
  const Floats a = magnitude_of(t);
  const SearchMask escapes = is_less(group.bound, a);
  IndexCosts costs;
  unrolled<4>([&](auto i) __attribute__((always_inline)) {
    constexpr unsigned q = i / 2;
    constexpr int parity = i % 2;
    const Floats cost =
        choose_indices<is_weighed>(a, sign_of(t), all_of(static_cast<float>(2 * parity - int{q})),
                                   group.most[parity], all_of(std::int32_t{parity}),
                                   parity == 0 ? kAllLanes : kNoLanes, group,
                                   is_weighed ? weights->of[q] : nullptr)
            .cost;
    costs.of[q][parity] = select(escapes, all_of(parity != 0 ? kNever : 0.0f), cost);
  });
  return costs;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
