// The search for indices, whole groups in vectors (spectral/spec.md, section 7). It gives the
// results of lane_search.hpp.
#pragma once

#include "spectral/kernels/choice_lanes.hpp"
#include "spectral/kernels/shifted_search.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// Advances some lanes by a value each; `costs` are those of their paths.
template <unsigned n_states, bool is_weighed>
CFCK_INLINE Ints advance_lanes(Floats t, const GroupLanes& group, const SymbolWeights* weights,
                               Floats (&costs)[n_states]) {
  constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
  const IndexCosts by_code = costs_of_indices<is_weighed>(t, group, weights);
  Floats next[n_states];
  Ints decisions = {};
  unrolled<n_states>([&](auto state) __attribute__((always_inline)) {
    constexpr unsigned first = kEdges.from[state][0];
    constexpr unsigned second = kEdges.from[state][1];
    const Floats by_first =
        costs[first] + by_code.of[kEdges.second >> first & 1][kEdges.parity[state][0]];
    const Floats by_second =
        costs[second] + by_code.of[kEdges.second >> second & 1][kEdges.parity[state][1]];
    const SearchMask takes_second = is_less(by_second, by_first);
    next[state] = lower_of(by_second, by_first);
    decisions = select(takes_second, decisions | (1 << state), decisions);
  });
  unrolled<n_states>([&](auto state)
                         __attribute__((always_inline)) { costs[state] = next[state]; });
  return decisions;
}

// Advances a whole group. Requires: low bits are at most kMaxVectorLowBits.
template <unsigned n_states, bool is_weighed>
void advance_group(const float* values, const GroupSteps& steps, const SymbolWeights* weights,
                   unsigned n_lanes, PathCosts<n_states>& all_costs, std::uint8_t* decisions) {
  const GroupLanes group(steps);
  for (unsigned lane = 0; lane < n_lanes; lane += kSearchLanes) {
    Floats costs[n_states];
    unrolled<n_states>([&](auto state) __attribute__((always_inline)) {
      costs[state] = load_lanes<Floats>(all_costs[state] + lane);
    });
    for (unsigned i = lane; i < kGroupSize; i += n_lanes) {
      store_bytes(advance_lanes<n_states, is_weighed>(load_lanes<Floats>(values + i), group,
                                                      weights, costs),
                  decisions + i);
    }
    unrolled<n_states>([&](auto state) __attribute__((always_inline)) {
      store_lanes(costs[state], all_costs[state] + lane);
    });
  }
}

// Steps back from states of some lanes to those before, by their decisions.
template <unsigned n_states>
CFCK_INLINE BackStep step_back(const std::uint8_t* decisions, Ints& state) {
  constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
  constexpr auto kFirst = static_cast<std::int32_t>(kEdges.packed[0]);
  constexpr auto kDifference = static_cast<std::int32_t>(kEdges.packed[0] ^ kEdges.packed[1]);
  const Ints edge = -(load_bytes(decisions) >> state & 1);
  const Ints taken = (kFirst ^ (edge & kDifference)) >> (4 * state);
  state = taken & 7;
  return {taken >> 3 & 1, all_of(static_cast<std::int32_t>(kEdges.second)) >> state & 1};
}
template <>
CFCK_INLINE BackStep step_back<kShiftedStates>(const std::uint8_t* decisions, Ints& state) {
  return step_back_shifted(decisions, state);
}

// Traces back through a whole group.
template <unsigned n_states, bool is_weighed>
void take_group(const float* values, const GroupSteps& steps, const SymbolWeights* weights,
                unsigned n_lanes, const std::uint8_t* decisions, std::int32_t* states,
                std::uint8_t* symbols, std::uint8_t* quantisers, std::int32_t* indices) {
  const GroupLanes group(steps);
  for (unsigned lane = 0; lane < n_lanes; lane += kSearchLanes) {
    Ints state = load_lanes<Ints>(states + lane);
    for (unsigned end = kGroupSize; end > 0; end -= n_lanes) {
      const unsigned i = end - n_lanes + lane;
      const auto [parity, second] =
          step_back<n_states>(decisions + i * sizeof(Decisions<n_states>), state);
      const Floats t = load_lanes<Floats>(values + i);
      const Floats a = magnitude_of(t);
      const SearchMask is_even = is_zero(parity);
      const Floats most = select(is_even, group.most[0], group.most[1]);
      const Floats offset = to_floats(parity + parity - second);
      LaneChoice choice;
      if constexpr (is_weighed) {
        const SearchMask is_first = is_zero(second);
        const LaneChoice by_first = choose_indices<true>(a, sign_of(t), offset, most, parity,
                                                         is_even, group, weights->of[0]);
        const LaneChoice by_second = choose_indices<true>(a, sign_of(t), offset, most, parity,
                                                          is_even, group, weights->of[1]);
        choice.index = select(is_first, by_first.index, by_second.index);
      } else {
        choice =
            choose_indices<false>(a, sign_of(t), offset, most, parity, is_even, group, nullptr);
      }
      const SearchMask escapes = is_less(group.bound, a);
      const Ints index = select(escapes, Ints{}, choice.index);
      const Ints symbol =
          (index >> static_cast<int>(group.low_bits)) + static_cast<int>(kSpectralZero);
      store_bytes(select(escapes, all_of(std::int32_t{kSpectralEscape}), symbol), symbols + i);
      store_bytes(second, quantisers + i);
      if (group.low_bits != 0) {
        store_lanes(index, indices + i);
      }
    }
    store_lanes(state, states + lane);
  }
}

// Subtracts the minimum cost of each lane from all of its costs.
template <unsigned n_states>
void level_costs(unsigned n_lanes, PathCosts<n_states>& costs) {
  for (unsigned lane = 0; lane < n_lanes; lane += kSearchLanes) {
    Floats min = all_of(kNever);
    for (unsigned state = 0; state < n_states; ++state) {
      min = lower_of(load_lanes<Floats>(costs[state] + lane), min);
    }
    for (unsigned state = 0; state < n_states; ++state) {
      const Floats rest = load_lanes<Floats>(costs[state] + lane) - min;
      store_lanes(lower_of(rest, all_of(kNever)), costs[state] + lane);
    }
  }
}

template <unsigned n_states, bool is_weighed>
class TrellisPaths {
 public:
  explicit TrellisPaths(const TrellisSearch& search) : search_(search) {}

  void run() {
    for (auto& of_state : costs_) {
      for (float& cost : of_state) {
        cost = &of_state == &costs_[0] ? 0.0f : kNever;
      }
    }
    const std::size_t n_groups = (search_.n_values + kGroupSize - 1) / kGroupSize;
    std::size_t coded = 0;
    for (std::size_t g = 0; g < n_groups; ++g) {
      if (search_.groups[g].kind != GroupKind::kAllZero) {
        advance(g, coded++);
        if (coded % kGroupsBetweenLevels == 0) {
          advance_waiting();
          level_costs<n_states>(search_.n_lanes, costs_);
        }
      }
    }
    advance_waiting();
    find_ends();
    for (std::size_t g = n_groups; g-- > 0;) {
      if (search_.groups[g].kind != GroupKind::kAllZero) {
        take(g, --coded);
      }
    }
  }

 private:
  static bool is_plain(const GroupSteps& steps, unsigned n) {
    return n < kGroupSize || steps.low_bits > kMaxVectorLowBits;
  }
  const SymbolWeights* weights_of(const GroupSteps& steps) const {
    return is_weighed ? search_.weights + steps.table : nullptr;
  }

  void advance(std::size_t g, std::size_t coded) {
    const GroupSteps steps(search_.groups[g]);
    const unsigned n = group_values(search_.n_values - g * kGroupSize);
    const float* const values = search_.values + g * kGroupSize;
    std::uint8_t* const decisions = decisions_of(coded);
    if (!is_plain(steps, n)) {
      if constexpr (n_states == kShiftedStates) {
        waiting_.append({values, steps, weights_of(steps), decisions});
      } else {
        advance_group<n_states, is_weighed>(values, steps, weights_of(steps), search_.n_lanes,
                                            costs_, decisions);
      }
      return;
    }
    advance_waiting();
    advance_values(values, n, steps, decisions);
  }

  // Works value by value. This is rare, so it is kept out of the code for whole groups.
  [[gnu::noinline]] void advance_values(const float* values, unsigned n, const GroupSteps& steps,
                                        std::uint8_t* decisions) {
    for (unsigned i = 0; i < n; ++i) {
      const Decisions<n_states> made = advance_value<n_states, kMaxSearchLanes>(
          values[i], steps, weights_of(steps), &costs_[0][i % search_.n_lanes]);
      __builtin_memcpy(decisions + i * sizeof(made), &made, sizeof(made));
    }
  }

  void advance_waiting() {
    if constexpr (n_states == kShiftedStates) {
      waiting_.template advance<is_weighed>(search_.n_lanes, costs_);
    }
  }

  std::uint8_t* decisions_of(std::size_t coded) const {
    return search_.decisions + coded * kGroupSize * sizeof(Decisions<n_states>);
  }

  void find_ends() {
    for (unsigned lane = 0; lane < search_.n_lanes; ++lane) {
      unsigned best = 0;
      for (unsigned state = 1; state < n_states; ++state) {
        best = costs_[state][lane] < costs_[best][lane] ? state : best;
      }
      states_[lane] = static_cast<std::int32_t>(best);
    }
  }

  void take(std::size_t g, std::size_t coded) {
    const GroupSteps steps(search_.groups[g]);
    const unsigned n = group_values(search_.n_values - g * kGroupSize);
    const float* const values = search_.values + g * kGroupSize;
    const std::size_t at = coded * kGroupSize;
    const std::uint8_t* const decisions = decisions_of(coded);
    if (!is_plain(steps, n)) {
      return take_group<n_states, is_weighed>(values, steps, weights_of(steps), search_.n_lanes,
                                              decisions, states_, search_.symbols + at,
                                              search_.quantisers + at, search_.indices + at);
    }
    take_values(values, n, steps, decisions, at);
  }

  void take_values(const float* values, unsigned n, const GroupSteps& steps,
                   const std::uint8_t* decisions, std::size_t at) {
    for (unsigned i = n; i-- > 0;) {
      Decisions<n_states> made;
      __builtin_memcpy(&made, decisions + i * sizeof(made), sizeof(made));
      store_found(take_value<n_states>(values[i], made, steps, weights_of(steps),
                                       states_[i % search_.n_lanes]),
                  search_, at + i);
    }
  }

  const TrellisSearch& search_;
  ShiftedGroups waiting_;
  alignas(64) PathCosts<n_states> costs_;
  alignas(64) std::int32_t states_[kMaxSearchLanes];
};

// Does what choose_alone() does, for a whole group. Requires: low bits are at most
// kMaxVectorLowBits.
template <bool is_weighed>
void choose_group_alone(const float* values, const GroupSteps& steps, const SymbolWeights* weights,
                        std::uint8_t* symbols, std::int32_t* indices) {
  const Floats bound = all_of(steps.alone_bound());
  for (unsigned i = 0; i < kGroupSize; i += kSearchLanes) {
    const Floats t = load_lanes<Floats>(values + i);
    const SearchMask escapes = neither(is_less(magnitude_of(t), bound));
    const Floats a = select(escapes, Floats{}, magnitude_of(t));
    const Ints sign = sign_of(t);
    const Floats nearest = nearest_to(a);
    const auto index_of = [&](Floats level) { return (to_ints(level) ^ sign) - sign; };
    Ints index = index_of(nearest);
    if constexpr (is_weighed) {
      const auto cost_of = [&](Floats level, Ints of_level) {
        const Ints high = of_level >> static_cast<int>(steps.low_bits);
        return (a - level) * (a - level) +
               look_up(weights->of[0], high + static_cast<int>(kSpectralZero));
      };
      const SearchMask is_zero_nearest = is_zero(index);
      const Floats nearer = nearest - 1.0f;
      const Floats cost = cost_of(nearest, index);
      const Floats nearer_cost = cost_of(nearer, index_of(nearer));
      const SearchMask is_nearer_worse = is_less(cost, nearer_cost);
      const Floats min = select(is_nearer_worse, cost, nearer_cost);
      index = select(is_nearer_worse, index, index_of(nearer));
      index = select(is_less(min, cost_of(Floats{}, Ints{})), index, Ints{});
      index = select(is_zero_nearest, Ints{}, index);
    }
    const Ints symbol =
        (index >> static_cast<int>(steps.low_bits)) + static_cast<int>(kSpectralZero);
    store_bytes(select(escapes, all_of(std::int32_t{kSpectralEscape}), symbol), symbols + i);
    store_lanes(index, indices + i);
  }
}

template <bool is_weighed>
void search_values(const TrellisSearch& search) {
  const std::size_t n_groups = (search.n_values + kGroupSize - 1) / kGroupSize;
  std::size_t at = 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (search.groups[g].kind == GroupKind::kAllZero) {
      continue;
    }
    const GroupSteps steps(search.groups[g]);
    const SymbolWeights* const weights = is_weighed ? search.weights + steps.table : nullptr;
    const unsigned n = group_values(search.n_values - g * kGroupSize);
    const float* const values = search.values + g * kGroupSize;
    __builtin_memset(search.quantisers + at, 0, n);
    if (n == kGroupSize && steps.low_bits <= kMaxVectorLowBits) {
      choose_group_alone<is_weighed>(values, steps, weights, search.symbols + at,
                                     search.indices + at);
    } else {
      for (unsigned i = 0; i < n; ++i) {
        store_found(take_alone(values[i], steps, weights), search, at + i);
      }
    }
    at += n;
  }
}

inline void search_codes(const TrellisSearch& search) {
  const bool is_weighed = search.weights != nullptr;
  if (search.n_states == 1) {
    is_weighed ? search_values<true>(search) : search_values<false>(search);
  } else if (search.n_states == 4) {
    is_weighed ? TrellisPaths<4, true>(search).run() : TrellisPaths<4, false>(search).run();
  } else if (search.n_states == 8) {
    is_weighed ? TrellisPaths<8, true>(search).run() : TrellisPaths<8, false>(search).run();
  } else {
    is_weighed ? TrellisPaths<64, true>(search).run() : TrellisPaths<64, false>(search).run();
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
