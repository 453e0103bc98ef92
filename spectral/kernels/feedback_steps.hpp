// The search for indices with error compensation, row by row and value by value: the reference that
// vectors must equal (spectral/spec.md, section 7).
#pragma once

#include "spectral/kernels/trellis_steps.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// Sums of committed errors are added up in this many parts, column i in part i mod 8.
inline constexpr std::size_t kFeedbackSums = 8;
// The maximum of a compensated value, in steps.
inline constexpr float kMaxFedSteps = 0x1p30f;

// One row of a block.
template <unsigned n_states>
class FeedbackRow {
 public:
  FeedbackRow(const FeedbackSearch& search, unsigned row) : search_(search), row_(row) {}

  void run() {
    for (unsigned fold = 0; fold < search_.n_folds; ++fold) {
      begin_ = search_.fold_begins[fold];
      const std::size_t end = search_.fold_begins[fold + 1];
      const unsigned first = search_.start_states[std::size_t{fold} * search_.n_rows + row_];
      for (unsigned state = 0; state < n_states; ++state) {
        paths_[state].cost = state == first ? 0.0f : kNever;
      }
      for (std::size_t k = begin_; k < end; ++k) {
        if (k - begin_ >= kFeedbackDepth) {
          commit(k - kFeedbackDepth);
        }
        advance(k);
      }
      const std::size_t n_open = end - begin_ < kFeedbackDepth ? end - begin_ : kFeedbackDepth;
      for (std::size_t k = end - n_open; k < end; ++k) {
        commit(k);
      }
    }
  }

 private:
  struct Choice {
    std::int32_t index = 0;
    float error = 0;
    float cost = 0;
  };
  struct Path {
    float cost = 0;
    float errors[kFeedbackDepth] = {};
    std::int32_t indices[kFeedbackDepth] = {};
  };

  std::size_t place_of(std::size_t column) const { return column * search_.n_rows + row_; }

  void commit(std::size_t column) {
    const std::size_t at = column % kFeedbackDepth;
    const Path* best = paths_;
    for (const Path& path : paths_) {
      best = path.cost < best->cost ? &path : best;
    }
    const float min = best->cost;
    const std::int32_t index = best->indices[at];
    search_.indices[place_of(column)] = index;
    search_.errors[place_of(column)] = best->errors[at];
    for (Path& path : paths_) {
      const float rest = path.cost - min;
      path.cost = path.indices[at] == index && rest < kNever ? rest : kNever;
    }
  }

  float sum_settled(const float* coefficients, std::size_t n) const {
    float sums[kFeedbackSums] = {};
    for (std::size_t i = 0; i < n; ++i) {
      sums[i % kFeedbackSums] += coefficients[i] * search_.errors[place_of(i)];
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }

  static float clamped(float t) {
    const float low = t < kMaxFedSteps ? t : kMaxFedSteps;
    return low > -kMaxFedSteps ? low : -kMaxFedSteps;
  }

  void advance(std::size_t k) {
    const FeedbackColumn& column = search_.columns[k];
    const GroupSteps steps(kSymbolCodes.of[column.scale_bin]);
    const float* const coefficients = search_.coefficients + k * search_.n_columns;
    const std::size_t n_open = k - begin_ < kFeedbackDepth - 1 ? k - begin_ : kFeedbackDepth - 1;
    const float base = sum_settled(coefficients, k - n_open);
    const float value = search_.values[place_of(k)];
    Choice choices[n_states][2];
    for (unsigned state = 0; state < n_states; ++state) {
      float sum = base;
      for (std::size_t d = n_open; d > 0; --d) {
        sum += coefficients[k - d] * paths_[state].errors[(k - d) % kFeedbackDepth];
      }
      const float t = clamped(value + column.inverse * sum);
      for (unsigned parity = 0; parity < 2; ++parity) {
        choices[state][parity] = choose(t, value, state, parity, steps, column.scale);
      }
    }
    join(k % kFeedbackDepth, choices);
  }

  static Choice choose(float t, float value, unsigned state, unsigned parity,
                       const GroupSteps& steps, float scale) {
    const float nearest = __builtin_copysignf(nearest_to(magnitude_of(t)), t);
    if constexpr (n_states == 1) {
      const bool escapes = magnitude_of(t) >= steps.alone_bound();
      return {escapes ? kEscapedIndex : static_cast<std::int32_t>(nearest),
              (value - nearest) * scale, 0};
    } else {
      if (magnitude_of(t) > steps.bound) {
        return {kEscapedIndex, (value - nearest) * scale, parity != 0 ? kNever : 0.0f};
      }
      const unsigned q = kTrellisEdges<n_states>.second >> state & 1;
      const IndexChoice found = choose_index(t, q, parity, steps, nullptr);
      return {found.index, (value - static_cast<float>(level_of(found.index, q))) * scale,
              found.cost};
    }
  }

  void join(std::size_t at, const Choice (&choices)[n_states][2]) {
    if constexpr (n_states == 1) {
      paths_[0].errors[at] = choices[0][0].error;
      paths_[0].indices[at] = choices[0][0].index;
    } else {
      constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
      Path joined[n_states];
      for (unsigned state = 0; state < n_states; ++state) {
        float costs[2];
        for (unsigned edge = 0; edge < 2; ++edge) {
          const unsigned from = kEdges.from[state][edge];
          costs[edge] = paths_[from].cost + choices[from][kEdges.parity[state][edge]].cost;
        }
        const unsigned edge = costs[1] < costs[0] ? 1 : 0;
        const unsigned from = kEdges.from[state][edge];
        const Choice& choice = choices[from][kEdges.parity[state][edge]];
        joined[state] = paths_[from];
        joined[state].cost = costs[edge];
        joined[state].errors[at] = choice.error;
        joined[state].indices[at] = choice.index;
      }
      __builtin_memcpy(paths_, joined, sizeof(paths_));
    }
  }

  const FeedbackSearch& search_;
  const unsigned row_;
  std::size_t begin_ = 0;  // of the fold
  Path paths_[n_states];
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
