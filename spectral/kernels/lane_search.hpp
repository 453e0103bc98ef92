// The search for indices, lane by lane and value by value: the reference that vectors must equal
// (spectral/spec.md, section 7). Lanes are independent of each other: each is a thread of a
// device.
#pragma once

#include "spectral/kernels/trellis_steps.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// A group of a search, value by value.
template <bool is_weighed>
struct LaneGroup {
  CFCK_HD LaneGroup(const TrellisSearch& search, std::size_t g)
      : steps(make_symbol_code(search.groups[g].scale_bin)),
        weights(is_weighed ? search.weights + steps.table : nullptr),
        values(search.values + g * kGroupSize),
        n(group_values(search.n_values - g * kGroupSize)) {}

  GroupSteps steps;
  const SymbolWeights* weights;
  const float* values;
  unsigned n;
};

CFCK_HD inline std::size_t group_count(std::size_t n_values) {
  return (n_values + kGroupSize - 1) / kGroupSize;
}

// All arrays have constant indices, so they are registers on a device.
template <unsigned n_states, bool is_weighed>
class LaneSearch {
 public:
  // The decisions of the search are a multiple of decision_bytes(n_states) in memory.
  CFCK_HD LaneSearch(const TrellisSearch& search, unsigned lane) : search_(search), lane_(lane) {}

  CFCK_HD void run() {
    for (unsigned state = 0; state < n_states; ++state) {
      costs_[state] = state == 0 ? 0.0f : kNever;
    }
    const std::size_t n_groups = group_count(search_.n_values);
    std::size_t coded = 0;
    for (std::size_t g = 0; g < n_groups; ++g) {
      if (search_.groups[g].kind != GroupKind::kAllZero) {
        advance(g, coded++);
        if (coded % kGroupsBetweenLevels == 0) {
          level_costs();
        }
      }
    }
    std::int32_t state = best_end();
    for (std::size_t g = n_groups; g-- > 0;) {
      if (search_.groups[g].kind != GroupKind::kAllZero) {
        take(g, --coded, state);
      }
    }
  }

 private:
  using Decision = Decisions<n_states>;

  CFCK_HD Decision* decision_of(std::size_t at) const {
    return static_cast<Decision*>(
        __builtin_assume_aligned(search_.decisions + at * sizeof(Decision), sizeof(Decision)));
  }

  CFCK_HD void advance(std::size_t g, std::size_t coded) {
    const LaneGroup<is_weighed> group(search_, g);
    for (unsigned i = lane_; i < group.n; i += search_.n_lanes) {
      const Decision made =
          advance_value<n_states, 1>(group.values[i], group.steps, group.weights, costs_);
      __builtin_memcpy(decision_of(coded * kGroupSize + i), &made, sizeof(made));
    }
  }

  // Subtracts the minimum cost from all of them.
  CFCK_HD void level_costs() {
    float min = kNever;
    for (const float cost : costs_) {
      min = cost < min ? cost : min;
    }
    for (float& cost : costs_) {
      const float rest = cost - min;
      cost = rest < kNever ? rest : kNever;
    }
  }

  CFCK_HD std::int32_t best_end() const {
    std::int32_t best = 0;
    float min = costs_[0];
    for (unsigned state = 1; state < n_states; ++state) {
      best = costs_[state] < min ? static_cast<std::int32_t>(state) : best;
      min = costs_[state] < min ? costs_[state] : min;
    }
    return best;
  }

  CFCK_HD void take(std::size_t g, std::size_t coded, std::int32_t& state) const {
    const LaneGroup<is_weighed> group(search_, g);
    const unsigned n_lanes = search_.n_lanes;
    // One after the last value of the lane.
    const unsigned n_of_lane = lane_ < group.n ? (group.n - lane_ + n_lanes - 1) / n_lanes : 0;
    for (unsigned i = lane_ + n_of_lane * n_lanes; i > lane_;) {
      i -= n_lanes;
      const std::size_t at = coded * kGroupSize + i;
      Decision made;
      __builtin_memcpy(&made, decision_of(at), sizeof(made));
      store_found(take_value<n_states>(group.values[i], made, group.steps, group.weights, state),
                  search_, at);
    }
  }

  const TrellisSearch& search_;
  const unsigned lane_;
  float costs_[n_states];
};

// With one state values are independent; lanes are any number of threads.
template <bool is_weighed>
class LaneSearch<1, is_weighed> {
 public:
  CFCK_HD LaneSearch(const TrellisSearch& search, unsigned lane) : search_(search), lane_(lane) {}

  CFCK_HD void run() const {
    std::size_t first = 0;
    for (std::size_t g = 0; g < group_count(search_.n_values); ++g) {
      if (search_.groups[g].kind != GroupKind::kAllZero) {
        const LaneGroup<is_weighed> group(search_, g);
        for (unsigned i = lane_; i < group.n; i += search_.n_lanes) {
          store_found(take_alone(group.values[i], group.steps, group.weights), search_, first + i);
        }
        first += group.n;
      }
    }
  }

 private:
  const TrellisSearch& search_;
  const unsigned lane_;
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
