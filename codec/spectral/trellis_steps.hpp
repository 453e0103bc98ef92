// The steps of the search for codes, value by value (codec/spectral/spec.md, section 7).
#pragma once

#include <type_traits>

#include "codec/spectral/spectral_kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// What no path may cost.
inline constexpr float kNever = 1e30f;
// After as many coded groups what the best path of a lane costs is taken off all of its paths.
inline constexpr unsigned kGroupsBetweenLevels = 8;
inline constexpr unsigned kMaxSearchLanes = 128;

// What paths cost that end in a state of a lane.
template <unsigned n_states>
using PathCosts = float[n_states][kMaxSearchLanes];

// Bits by state: whether the best path into it comes from the higher one of two.
template <unsigned n_states>
using Decisions = std::conditional_t<n_states <= kMaxTableStates, std::uint8_t, std::uint64_t>;

// The two edges into each state, that from the lower state first.
template <unsigned n_states>
struct TrellisEdges {
  unsigned from[n_states][2] = {};
  unsigned parity[n_states][2] = {};
  std::uint64_t second = 0;  // as in Trellis
  // By edge: three bits of where it is from, its parity above, in four bits for each state.
  // Of as many states as fit.
  std::uint32_t packed[2] = {};

  constexpr TrellisEdges() {
    const Trellis& trellis = *trellis_of(n_states);
    second = trellis.second;
    unsigned n_edges[n_states] = {};
    for (unsigned state = 0; state < n_states; ++state) {
      for (unsigned p = 0; p < 2; ++p) {
        const unsigned to = trellis.next[state][p];
        const unsigned edge = n_edges[to]++;
        from[to][edge] = state;
        parity[to][edge] = p;
        packed[edge] |= n_states <= kMaxTableStates ? (state | p << 3) << (4 * to) : 0;
      }
    }
  }
};
template <unsigned n_states>
inline constexpr TrellisEdges<n_states> kTrellisEdges{};

// What is the same for all values of a group.
struct GroupSteps {
  GroupSteps() = default;
  explicit GroupSteps(const GroupCode& group) : GroupSteps(kSymbolCodes.of[group.scale_class]) {}
  explicit GroupSteps(const SymbolCode& code)
      : low_bits(code.low_bits),
        table(code.table),
        limit(std::int32_t{code.reach} << code.low_bits),
        bound(2.0f * static_cast<float>(limit)),
        most{static_cast<float>(limit / 2), static_cast<float>((limit - 1) / 2)} {}

  // With one state, from which on values escape.
  float alone_bound() const { return static_cast<float>(limit) + 0.5f; }

  unsigned low_bits = 0;
  unsigned table = 0;
  std::int32_t limit = 0;  // of magnitudes of codes
  float bound = 0;         // what is above, in steps, escapes
  float most[2] = {};      // halves of the largest codes of each parity
};

// Half to even. Requires: -1 < x.
inline float nearest_to(float x) { return x < 0x1p23f ? (x + 0x1p23f) - 0x1p23f : x; }

inline float magnitude_of(float x) { return __builtin_fabsf(x); }

inline std::int32_t with_sign(std::int32_t magnitude, float t) {
  return __builtin_signbit(t) ? -magnitude : magnitude;
}

// The point that is nearest to t.
inline std::int32_t escaped_point(float t) {
  return with_sign(static_cast<std::int32_t>(nearest_to(magnitude_of(t))), t);
}

inline unsigned symbol_of(std::int32_t code, unsigned low_bits) {
  return static_cast<unsigned>((code >> low_bits) + static_cast<std::int32_t>(kSpectralZero));
}

struct CodeChoice {
  std::int32_t code;
  float cost;
};

// The best code of a quantiser and a parity. Points have magnitudes 4 half + 2 parity - q.
inline CodeChoice choose_code(float t, unsigned q, unsigned parity, const GroupSteps& group,
                              const SymbolWeights* weights) {
  const float a = magnitude_of(t);
  const float offset = static_cast<float>(2 * static_cast<int>(parity) - static_cast<int>(q));
  float half = nearest_to((a - offset) * 0.25f);
  half = half > 0.0f ? half : 0.0f;
  half = half < group.most[parity] ? half : group.most[parity];
  float point = 4.0f * half + offset;
  point = point > 0.0f ? point : 0.0f;
  const float error = a - point;
  CodeChoice choice{
      with_sign(2 * static_cast<std::int32_t>(half) + static_cast<std::int32_t>(parity), t),
      error * error};
  float zero = a * a;
  if (weights != nullptr) {
    choice.cost += weights->of[q][symbol_of(choice.code, group.low_bits)];
    zero += weights->of[q][kSpectralZero];
  }
  return parity == 0 && zero <= choice.cost ? CodeChoice{0, zero} : choice;
}

// A value of a lane: costs of its paths go on, each state's decision is a bit.
template <unsigned n_states>
Decisions<n_states> advance_value(float t, unsigned lane, const GroupSteps& group,
                                  const SymbolWeights* weights, PathCosts<n_states>& costs) {
  constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
  const bool escapes = magnitude_of(t) > group.bound;
  float by_code[2][2];
  for (unsigned q = 0; q < 2; ++q) {
    for (unsigned parity = 0; parity < 2; ++parity) {
      by_code[q][parity] =
          escapes ? (parity != 0 ? kNever : 0.0f) : choose_code(t, q, parity, group, weights).cost;
    }
  }
  float next[n_states];
  Decisions<n_states> decisions = 0;
  for (unsigned state = 0; state < n_states; ++state) {
    float by[2];
    for (unsigned edge = 0; edge < 2; ++edge) {
      const unsigned from = kEdges.from[state][edge];
      by[edge] = costs[from][lane] + by_code[kEdges.second >> from & 1][kEdges.parity[state][edge]];
    }
    decisions |= static_cast<Decisions<n_states>>(std::uint64_t{by[1] < by[0]} << state);
    next[state] = by[1] < by[0] ? by[1] : by[0];
  }
  for (unsigned state = 0; state < n_states; ++state) {
    costs[state][lane] = next[state];
  }
  return decisions;
}

// Back along the path of a lane, of which `state` is where it is.
template <unsigned n_states>
CodeChoice take_value(float t, Decisions<n_states> decisions, const GroupSteps& group,
                      const SymbolWeights* weights, std::int32_t& state, unsigned& q) {
  constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
  const unsigned edge = decisions >> state & 1;
  const unsigned parity = kEdges.parity[state][edge];
  state = static_cast<std::int32_t>(kEdges.from[state][edge]);
  q = kEdges.second >> state & 1;
  return choose_code(t, q, parity, group, weights);
}

// With one state every value is on its own.
inline std::int32_t choose_alone(float t, const GroupSteps& group, const SymbolWeights* weights) {
  const float a = magnitude_of(t);
  const float nearest = nearest_to(a);
  const auto best = with_sign(static_cast<std::int32_t>(nearest), t);
  if (weights == nullptr || best == 0) {
    return best;
  }
  const auto cost_of = [&](float point, std::int32_t code) {
    return (a - point) * (a - point) + weights->of[0][symbol_of(code, group.low_bits)];
  };
  const float nearer = nearest - 1.0f;
  const std::int32_t code = with_sign(static_cast<std::int32_t>(nearer), t);
  const float cost = cost_of(nearest, best);
  const float nearer_cost = cost_of(nearer, code);
  const std::int32_t better = nearer_cost <= cost ? code : best;
  return cost_of(0.0f, 0) <= (nearer_cost <= cost ? nearer_cost : cost) ? 0 : better;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
