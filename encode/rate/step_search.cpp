#include "encode/rate/step_search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/cpu/float_environment.hpp"
#include "base/numbers/piecewise_log2.hpp"

namespace cfck::encode {
namespace {

constexpr int kMaxTrials = 32;
// A log2 width. Steps nearer to each other than this give equal results.
constexpr double kMinWidth = 0x1p-11;
// The first move in one direction is at least this; each further one is at least four times as far.
constexpr double kFirstReach = 0.05;
// The minimum distance of a trial from the ends of an interval, as a share of the interval.
constexpr double kMargin = 0.04;

// Bits of each value fall by one for each doubling of the step until few are left, and then ever
// slower towards none: for a normal distribution about as log2(1 + 2^(5 level)) / 5.
double level_of_bits(double bits) {
  constexpr double kBend = 5;
  if (!(bits > 0)) {
    return -HUGE_VAL;
  }
  return bits > 10 ? bits : piecewise_linear_log2(piecewise_linear_exp2(kBend * bits) - 1) / kBend;
}

// One trial. `place` grows as the measure falls: log2 of the step, or its negative.
struct Trial {
  double place = 0;
  double measured = 0;
  double level = 0;  // approximately linear in `place`
};

class Search {
 public:
  Search(const StepGoal& goal, const TryStep& try_step)
      : goal_(goal), try_step_(try_step), sign_(counts_bytes() ? 1 : -1) {
    const double finest = piecewise_linear_log2(goal.finest_step);
    const double coarsest = piecewise_linear_log2(goal.coarsest_step);
    first_place_ = counts_bytes() ? finest : -coarsest;
    last_place_ = counts_bytes() ? coarsest : -finest;
    aim_ = level_of(goal.most - (goal.most - goal.min) / 4);
  }

  Result<FoundStep> run() {
    double place = clamped(sign_ * piecewise_linear_log2(goal_.first_step));
    for (int trial = 0; trial < kMaxTrials; ++trial) {
      CFCK_TRY(take(place));
      if (is_done_ || (keeping_ && keeping_->measured >= goal_.min)) {
        break;
      }
      const std::optional<double> next = next_place();
      if (!next) {
        break;
      }
      place = *next;
    }
    const Trial& best = keeping_ ? *keeping_ : *breaking_;
    return FoundStep{piecewise_linear_exp2(sign_ * best.place), best.measured,
                     keeping_.has_value()};
  }

 private:
  bool counts_bytes() const { return goal_.measure == StepGoal::Measure::kBytes; }
  double clamped(double place) const { return std::clamp(place, first_place_, last_place_); }
  double level_of(double measured) const {
    if (counts_bytes()) {
      return level_of_bits((measured - goal_.min_bytes) / goal_.bytes_per_octave);
    }
    return measured > 0 ? piecewise_linear_log2(measured) : -HUGE_VAL;
  }
  // The slope of the level in `place`.
  double slope() const { return counts_bytes() ? -1 : -2; }

  Result<void> take(double place) {
    CFCK_TRY_ASSIGN(const StepOutcome outcome, try_step_(piecewise_linear_exp2(sign_ * place)));
    const Trial trial{place, outcome.measured, level_of(outcome.measured)};
    std::optional<Trial>& side = trial.measured <= goal_.most ? keeping_ : breaking_;
    const bool is_keeping = &side == &keeping_;
    same_side_ = is_keeping == last_kept_ ? same_side_ + 1 : 0;
    last_kept_ = is_keeping;
    // Where the measure does not fall all the way, the nearest trials are used.
    if (!side || (is_keeping ? trial.measured >= side->measured : trial.place > side->place)) {
      side = trial;
    }
    is_done_ = outcome.is_finest && is_keeping && counts_bytes();
    return {};
  }

  // Returns the next place to try; nullopt if there is none left.
  std::optional<double> next_place() {
    if (!keeping_ || !breaking_) {
      return beyond(keeping_ ? *keeping_ : *breaking_);
    }
    const double low = breaking_->place;
    const double high = keeping_->place;
    const double width = high - low;
    if (width < kMinWidth) {
      return std::nullopt;
    }
    // Where one end stays, its trial gets less and less weight.
    const double stale = std::ldexp(1, -same_side_);
    const double above = (breaking_->level - aim_) * (last_kept_ ? stale : 1);
    const double below = (aim_ - keeping_->level) * (last_kept_ ? 1 : stale);
    const bool is_straight = above > 0 && below > 0 && std::isfinite(above + below);
    const double share = is_straight ? above / (above + below) : 0.5;
    return low + width * std::clamp(share, kMargin, 1 - kMargin);
  }

  // Only one side is known: returns a place on the other.
  std::optional<double> beyond(const Trial& known) {
    double distance = (aim_ - known.level) / slope();
    if (!std::isfinite(distance)) {
      distance = 0;
    }
    const double min = keeping_ ? -reach_ : reach_;
    reach_ *= 4;
    distance = keeping_ ? std::min(distance, min) : std::max(distance, min);
    const double place = clamped(known.place + distance);
    return place == known.place ? std::nullopt : std::optional(place);
  }

  const StepGoal& goal_;
  const TryStep& try_step_;
  const double sign_;
  double first_place_ = 0;
  double last_place_ = 0;
  double aim_ = 0;
  double reach_ = kFirstReach;
  std::optional<Trial> keeping_;   // the measure is not above `most`
  std::optional<Trial> breaking_;  // it is
  int same_side_ = 0;
  bool last_kept_ = false;
  bool is_done_ = false;
};

}  // namespace

Result<FoundStep> find_step(const StepGoal& goal, const TryStep& try_step) {
  const DefaultFloatEnvironment environment;
  return Search(goal, try_step).run();
}

}  // namespace cfck::encode
