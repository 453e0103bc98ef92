// The search for indices with error compensation, a vector of rows at a time (spectral/spec.md,
// section 7).
#pragma once

#include "spectral/kernels/feedback_steps.hpp"
#include "spectral/kernels/trellis_search.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// A vector of rows of a block. It does everything as FeedbackRow does.
template <unsigned n_states>
class FeedbackLanes {
 public:
  // Takes rows from `row` on; fewer than a vector holds where the block ends.
  FeedbackLanes(const FeedbackSearch& search, unsigned row)
      : search_(search),
        row_(row),
        n_rows_(search.n_rows - row < kSearchLanes ? search.n_rows - row : kSearchLanes) {}

  void run() {
    for (unsigned fold = 0; fold < search_.n_folds; ++fold) {
      begin_ = search_.fold_begins[fold];
      const std::size_t end = search_.fold_begins[fold + 1];
      start(search_.start_states + std::size_t{fold} * search_.n_rows + row_);
      for (std::size_t k = begin_; k < end; ++k) {
        if (k - begin_ >= kFeedbackDepth) {
          commit(k - kFeedbackDepth);
        }
        advance(k);
      }
      commit_all(end);
    }
  }

 private:
  static constexpr unsigned kCandidates = n_states == 1 ? 1 : 2;
  struct Path {
    Floats errors[kFeedbackDepth];
    Ints indices[kFeedbackDepth];
  };

  void start(const std::uint8_t* states) {
    std::int32_t first[kSearchLanes] = {};
    for (unsigned i = 0; i < n_rows_; ++i) {
      first[i] = states[i];
    }
    const Ints from = load_lanes<Ints>(first);
    for (unsigned state = 0; state < n_states; ++state) {
      costs_[state] =
          select(is_zero(from - static_cast<std::int32_t>(state)), Floats{}, all_of(kNever));
    }
  }

  Floats load_row(const float* from) const {
    if (n_rows_ == kSearchLanes) {
      return load_lanes<Floats>(from);
    }
    float some[kSearchLanes] = {};
    __builtin_memcpy(some, from, n_rows_ * sizeof(float));
    return load_lanes<Floats>(some);
  }

  float* committed(std::size_t column) const { return search_.workspace + column * kSearchLanes; }

  // The cheapest path in each lane decides about a column; paths that decided otherwise
  // end.
  void commit(std::size_t column) {
    const std::size_t at = column % kFeedbackDepth;
    Floats min = costs_[0];
    Floats error = paths_[0].errors[at];
    Ints index = paths_[0].indices[at];
    for (unsigned state = 1; state < n_states; ++state) {
      const SearchMask is_better = is_less(costs_[state], min);
      min = select(is_better, costs_[state], min);
      error = select(is_better, paths_[state].errors[at], error);
      index = select(is_better, paths_[state].indices[at], index);
    }
    for (unsigned state = 0; state < n_states; ++state) {
      const SearchMask stays = is_zero(paths_[state].indices[at] ^ index);
      const Floats rest = lower_of(costs_[state] - min, all_of(kNever));
      costs_[state] = select(stays, rest, all_of(kNever));
    }
    put(column, index, error);
  }

  void put(std::size_t column, Ints index, Floats error) {
    store_lanes(error, committed(column));
    const std::size_t to = column * search_.n_rows + row_;
    if (n_rows_ == kSearchLanes) {
      store_lanes(index, search_.indices + to);
      store_lanes(error, search_.errors + to);
      return;
    }
    for (unsigned i = 0; i < n_rows_; ++i) {
      search_.indices[to + i] = index[i];
      search_.errors[to + i] = error[i];
    }
  }

  void commit_all(std::size_t end) {
    const std::size_t n_open = end - begin_ < kFeedbackDepth ? end - begin_ : kFeedbackDepth;
    for (std::size_t column = end - n_open; column < end; ++column) {
      commit(column);
    }
  }

  Floats sum_settled(const float* coefficients, std::size_t n) const {
    Floats sums[kFeedbackSums] = {};
    std::size_t i = 0;
    for (; i + kFeedbackSums <= n; i += kFeedbackSums) {
      unrolled<kFeedbackSums>([&](auto j) __attribute__((always_inline)) {
        sums[j] += coefficients[i + j] * load_lanes<Floats>(committed(i + j));
      });
    }
    for (; i < n; ++i) {
      sums[i % kFeedbackSums] += coefficients[i] * load_lanes<Floats>(committed(i));
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }

  void advance(std::size_t k) {
    const FeedbackColumn& column = search_.columns[k];
    const GroupSteps steps(kSymbolCodes.of[column.scale_bin]);
    const float* const coefficients = search_.coefficients + k * search_.n_columns;
    const std::size_t n_open = k - begin_ < kFeedbackDepth - 1 ? k - begin_ : kFeedbackDepth - 1;
    const Floats base = sum_settled(coefficients, k - n_open);
    const Floats value = load_row(search_.values + k * search_.n_rows + row_);
    Candidates candidates[n_states];
    Floats sums[n_states];
    for (Floats& sum : sums) {
      sum = base;
    }
    for (std::size_t d = n_open; d > 0; --d) {
      const std::size_t at = (k - d) % kFeedbackDepth;
      unrolled<n_states>([&](auto state) __attribute__((always_inline)) {
        sums[state] += coefficients[k - d] * paths_[state].errors[at];
      });
    }
    for (unsigned state = 0; state < n_states; ++state) {
      Floats t = value + column.inverse * sums[state];
      t = higher_of(lower_of(t, all_of(kMaxFedSteps)), all_of(-kMaxFedSteps));
      choose(t, value, state, steps, column.scale, candidates[state]);
    }
    join(k % kFeedbackDepth, candidates);
  }

  struct Candidates {
    Floats costs[kCandidates];
    Floats errors[kCandidates];
    Ints indices[kCandidates];
  };

  static Floats signed_of(Floats magnitude, Floats like) {
    return vector_bits<Floats>(vector_bits<Ints>(magnitude) |
                               (vector_bits<Ints>(like) & INT32_MIN));
  }

  static void choose(Floats t, Floats value, unsigned state, const GroupSteps& steps, float scale,
                     Candidates& found) {
    const Floats a = magnitude_of(t);
    const Floats nearest = select(is_less(a, all_of(0x1p23f)), nearest_to(a), a);
    const Floats escape_error = (value - signed_of(nearest, t)) * scale;
    if constexpr (n_states == 1) {
      const SearchMask escapes = neither(is_less(a, all_of(steps.alone_bound())));
      const Ints index = to_ints(signed_of(select(escapes, Floats{}, nearest), t));
      found.costs[0] = Floats{};
      found.errors[0] = escape_error;
      found.indices[0] = select(escapes, all_of(kEscapedIndex), index);
    } else {
      const GroupLanes group(steps);
      const SearchMask escapes = is_less(group.bound, a);
      const unsigned q = kTrellisEdges<n_states>.second >> state & 1;
      unrolled<2>([&](auto parity) __attribute__((always_inline)) {
        const LaneChoice choice = choose_indices<false>(
            a, sign_of(t), all_of(static_cast<float>(2 * int{parity} - static_cast<int>(q))),
            group.most[parity], all_of(std::int32_t{parity}), parity == 0 ? kAllLanes : kNoLanes,
            group, nullptr);
        const Ints sign = (choice.index >> 31) - (-choice.index >> 31);
        const Ints level = choice.index + choice.index - (q != 0 ? sign : Ints{});
        found.costs[parity] = select(escapes, all_of(parity != 0 ? kNever : 0.0f), choice.cost);
        found.errors[parity] = select(escapes, escape_error, (value - to_floats(level)) * scale);
        found.indices[parity] = select(escapes, all_of(kEscapedIndex), choice.index);
      });
    }
  }

  // Keeps the cheaper of the two paths into each state, with all its indices.
  void join(std::size_t at, const Candidates (&candidates)[n_states]) {
    if constexpr (n_states == 1) {
      paths_[0].errors[at] = candidates[0].errors[0];
      paths_[0].indices[at] = candidates[0].indices[0];
    } else {
      constexpr const TrellisEdges<n_states>& kEdges = kTrellisEdges<n_states>;
      Path* const joined = spare_;
      Floats costs[n_states];
      unrolled<n_states>([&](auto state) __attribute__((always_inline)) {
        constexpr unsigned first = kEdges.from[state][0];
        constexpr unsigned second = kEdges.from[state][1];
        constexpr unsigned by_first = kEdges.parity[state][0];
        constexpr unsigned by_second = kEdges.parity[state][1];
        const Floats first_cost = costs_[first] + candidates[first].costs[by_first];
        const Floats second_cost = costs_[second] + candidates[second].costs[by_second];
        const SearchMask takes_second = is_less(second_cost, first_cost);
        costs[state] = lower_of(second_cost, first_cost);
        for (std::size_t i = 0; i < kFeedbackDepth; ++i) {
          joined[state].errors[i] =
              select(takes_second, paths_[second].errors[i], paths_[first].errors[i]);
          joined[state].indices[i] =
              select(takes_second, paths_[second].indices[i], paths_[first].indices[i]);
        }
        joined[state].errors[at] = select(takes_second, candidates[second].errors[by_second],
                                          candidates[first].errors[by_first]);
        joined[state].indices[at] = select(takes_second, candidates[second].indices[by_second],
                                           candidates[first].indices[by_first]);
      });
      spare_ = paths_;
      paths_ = joined;
      __builtin_memcpy(costs_, costs, sizeof(costs_));
    }
  }

  const FeedbackSearch& search_;
  const unsigned row_;
  const unsigned n_rows_;
  std::size_t begin_ = 0;  // of the fold
  Floats costs_[n_states];
  Path rooms_[2][n_states] = {};
  Path* paths_ = rooms_[0];
  Path* spare_ = rooms_[1];
};

template <unsigned n_states>
void search_feedback_of(const FeedbackSearch& search) {
  if (search.use_reference) {
    for (unsigned row = 0; row < search.n_rows; ++row) {
      FeedbackRow<n_states>(search, row).run();
    }
    return;
  }
  for (unsigned row = 0; row < search.n_rows; row += kSearchLanes) {
    FeedbackLanes<n_states>(search, row).run();
  }
}

inline void search_feedback(const FeedbackSearch& search) {
  switch (search.n_states) {
    case 1:
      return search_feedback_of<1>(search);
    case 4:
      return search_feedback_of<4>(search);
    default:
      return search_feedback_of<8>(search);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
