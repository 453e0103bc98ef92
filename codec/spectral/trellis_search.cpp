#include "codec/spectral/trellis_search.hpp"

#include <algorithm>
#include <cmath>

namespace cfck::codec {
namespace {

inline constexpr float kNever = 1e30f;

// A code of each parity for each quantiser, and what it costs.
struct Candidates {
  std::int32_t code[2][2];
  float cost[2][2];
};

float square(float x) { return x * x; }

class Search {
 public:
  Search(const SearchRequest& request, FoundCodes& found)
      : request_(request), found_(found), trellis_(*trellis_of(request.n_states)) {
    for (unsigned state = 0; state < trellis_.n_states; ++state) {
      for (unsigned parity = 0; parity < 2; ++parity) {
        Edges& edges = into_[trellis_.next[state][parity]];
        edges.from[edges.n] = static_cast<std::uint8_t>(state);
        edges.parity[edges.n++] = static_cast<std::uint8_t>(parity);
      }
    }
  }

  void run() {
    const std::size_t n = request_.values.size();
    decisions_.assign(n, 0);
    costs_.assign(std::size_t{request_.n_lanes} * kMaxTrellisStates, kNever);
    for (unsigned lane = 0; lane < request_.n_lanes; ++lane) {
      costs_[std::size_t{lane} * kMaxTrellisStates] = 0;
    }
    each_value([&](std::size_t i, unsigned lane, SymbolCode code) { advance(i, lane, code); });
    trace_back();
  }

  Candidates candidates(float t, SymbolCode code) const {
    Candidates found;
    const SymbolWeights* const weights =
        request_.weights == nullptr ? nullptr : &request_.weights[code.table];
    for (unsigned q = 0; q < 2; ++q) {
      for (unsigned parity = 0; parity < 2; ++parity) {
        const std::int32_t k = nearest(t, q, parity, code);
        found.code[q][parity] = k;
        found.cost[q][parity] = cost_of(t, k, q, code, weights);
      }
      const float zero = cost_of(t, 0, q, code, weights);
      if (zero <= found.cost[q][0]) {
        found.code[q][0] = 0;
        found.cost[q][0] = zero;
      }
    }
    return found;
  }

 private:
  struct Edges {
    unsigned n = 0;
    std::uint8_t from[2] = {};
    std::uint8_t parity[2] = {};
  };

  template <class Action>
  void each_value(Action&& action) const {
    for (std::size_t g = 0; g < request_.groups.size(); ++g) {
      if (request_.groups[g].kind == GroupKind::kAllZero) {
        continue;
      }
      const SymbolCode code = kSymbolCodes.of[request_.groups[g].scale_class];
      const std::size_t first = g * kGroupSize;
      const std::size_t n = std::min<std::size_t>(kGroupSize, request_.values.size() - first);
      for (std::size_t i = 0; i < n; ++i) {
        action(first + i, static_cast<unsigned>(i % request_.n_lanes), code);
      }
    }
  }

  static std::int32_t nearest(float t, unsigned q, unsigned parity, SymbolCode code) {
    const float a = std::fabs(t);
    // Magnitudes of the points are 4 j + offset.
    const float offset = q == 0 ? 2.0f * static_cast<float>(parity) : (parity != 0 ? 1.0f : -1.0f);
    const float j = std::max(0.0f, std::nearbyint((a - offset) * 0.25f));
    std::int32_t k = 2 * static_cast<std::int32_t>(j) + static_cast<std::int32_t>(parity);
    const std::int32_t limit = std::int32_t{code.reach} << code.low_bits;
    const std::int32_t most = (limit & 1) == static_cast<std::int32_t>(parity) ? limit : limit - 1;
    k = std::min(k, most);
    return std::signbit(t) ? -k : k;
  }

  static float cost_of(float t, std::int32_t k, unsigned q, SymbolCode code,
                       const SymbolWeights* weights) {
    const float error = square(t - static_cast<float>(point_of(k, q)));
    if (weights == nullptr) {
      return error;
    }
    return error + weights->of[q][static_cast<unsigned>((k >> code.low_bits) +
                                                        static_cast<std::int32_t>(kSpectralZero))];
  }

  static bool is_escape(float t, SymbolCode code) {
    return std::fabs(t) > 2.0f * static_cast<float>(std::int32_t{code.reach} << code.low_bits);
  }

  void advance(std::size_t i, unsigned lane, SymbolCode code) {
    const float t = request_.values[i];
    Candidates c = {};
    if (is_escape(t, code)) {
      c.cost[0][1] = c.cost[1][1] = kNever;
    } else {
      c = candidates(t, code);
    }
    float* const old_costs = &costs_[std::size_t{lane} * kMaxTrellisStates];
    float costs[kMaxTrellisStates];
    unsigned decision = 0;
    float least = kNever;
    for (unsigned state = 0; state < trellis_.n_states; ++state) {
      const Edges& edges = into_[state];
      float by[2];
      for (unsigned e = 0; e < 2; ++e) {
        by[e] = old_costs[edges.from[e]] + c.cost[trellis_.table(edges.from[e])][edges.parity[e]];
      }
      decision |= static_cast<unsigned>(by[1] < by[0]) << state;
      costs[state] = std::min(by[0], by[1]);
      least = std::min(least, costs[state]);
    }
    for (unsigned state = 0; state < trellis_.n_states; ++state) {
      old_costs[state] = std::min(costs[state] - least, kNever);
    }
    decisions_[i] = static_cast<std::uint8_t>(decision);
  }

  void trace_back() {
    std::vector<std::uint8_t> states(request_.n_lanes);
    for (unsigned lane = 0; lane < request_.n_lanes; ++lane) {
      const float* const costs = &costs_[std::size_t{lane} * kMaxTrellisStates];
      states[lane] =
          static_cast<std::uint8_t>(std::min_element(costs, costs + trellis_.n_states) - costs);
    }
    for (std::size_t g = request_.groups.size(); g-- > 0;) {
      if (request_.groups[g].kind == GroupKind::kAllZero) {
        continue;
      }
      const SymbolCode code = kSymbolCodes.of[request_.groups[g].scale_class];
      const std::size_t first = g * kGroupSize;
      for (std::size_t i = std::min<std::size_t>(kGroupSize, request_.values.size() - first);
           i-- > 0;) {
        std::uint8_t& state = states[i % request_.n_lanes];
        const Edges& edges = into_[state];
        const unsigned e = decisions_[first + i] >> state & 1u;
        state = edges.from[e];
        take(first + i, code, trellis_.table(state), edges.parity[e]);
      }
    }
  }

  void take(std::size_t i, SymbolCode code, unsigned q, unsigned parity) {
    const float t = request_.values[i];
    found_.quantisers[i] = static_cast<std::uint8_t>(q);
    found_.is_escape[i] = is_escape(t, code);
    found_.codes[i] = found_.is_escape[i] ? static_cast<std::int32_t>(std::nearbyint(t))
                                          : candidates(t, code).code[q][parity];
  }

  const SearchRequest& request_;
  FoundCodes& found_;
  const Trellis& trellis_;
  Edges into_[kMaxTrellisStates];
  std::vector<float> costs_;             // by lane and state
  std::vector<std::uint8_t> decisions_;  // a bit for each state: its second edge is better
};

// With one state every value is on its own.
void search_values(const SearchRequest& request, FoundCodes& found) {
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    const GroupCode group = request.groups[i / kGroupSize];
    if (group.kind == GroupKind::kAllZero) {
      continue;
    }
    const SymbolCode code = kSymbolCodes.of[group.scale_class];
    const std::int32_t limit = std::int32_t{code.reach} << code.low_bits;
    const float t = request.values[i];
    auto best = static_cast<std::int32_t>(std::nearbyint(t));
    found.quantisers[i] = 0;
    found.is_escape[i] = best > limit || best < -limit;
    if (request.weights != nullptr && found.is_escape[i] == 0) {
      const auto cost_of = [&](std::int32_t k) {
        const auto symbol =
            static_cast<unsigned>((k >> code.low_bits) + static_cast<std::int32_t>(kSpectralZero));
        return square(t - static_cast<float>(k)) + request.weights[code.table].of[0][symbol];
      };
      const std::int32_t nearer = best - (best > 0) + (best < 0);
      best = cost_of(nearer) <= cost_of(best) ? nearer : best;
      best = cost_of(0) <= cost_of(best) ? 0 : best;
    }
    found.codes[i] = best;
  }
}

}  // namespace

void search_trellis(const SearchRequest& request, FoundCodes& found) {
  found.codes.resize(request.values.size());
  found.quantisers.resize(request.values.size());
  found.is_escape.resize(request.values.size());
  if (request.n_states == 1) {
    search_values(request, found);
  } else {
    Search(request, found).run();
  }
}

}  // namespace cfck::codec
