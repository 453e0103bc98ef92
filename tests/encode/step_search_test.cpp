// The search of steps on curves of rate and distortion that are known.
#include "encode/rate/step_search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/numbers/piecewise_log2.hpp"

namespace cfck::encode {
namespace {

constexpr double kValues = 1e6;

// Bits of a normal distribution at uniform steps, approximately: none are left at coarse ones, and
// there is a bit more for each half.
double bytes_at(double step, double sigma) {
  const double bits = std::log2(1 + std::pow(4.13 * sigma / step, 4)) / 4;
  return kValues * bits / 8;
}
// step^2 / 12 as long as that is less than the signal.
double squares_at(double step, double sigma) {
  const double fine = step * step / 12;
  return kValues * fine * sigma * sigma / (fine + sigma * sigma);
}

StepGoal goal(StepGoal::Measure measure, double most, double first_step) {
  StepGoal goal;
  goal.measure = measure;
  goal.most = most;
  goal.min = most * (measure == StepGoal::Measure::kBytes ? 0.995 : 0.9886);
  goal.first_step = first_step;
  goal.finest_step = 0x1p-60;
  goal.coarsest_step = 0x1p40;
  goal.bytes_per_octave = kValues / 8;
  return goal;
}

TEST(StepSearch, StraightLogarithmHasAnInverse) {
  for (double number = 1e-300; number < 1e300; number *= 1.7) {
    EXPECT_NEAR(piecewise_linear_log2(number), std::log2(number), 0.0861) << number;
    EXPECT_NEAR(piecewise_linear_exp2(piecewise_linear_log2(number)) / number, 1, 1e-12) << number;
  }
  EXPECT_EQ(piecewise_linear_log2(8), 3);
  EXPECT_EQ(piecewise_linear_exp2(-3), 0.125);
}

TEST(StepSearch, ByteTargetsInFewTrials) {
  for (const double bits : {0.05, 0.2, 0.7, 1.5, 2.5, 4.0, 8.0, 14.0}) {
    for (const double off : {1e-4, 0.3, 1.0, 3.0, 1e5}) {
      const double most = kValues * bits / 8;
      int n_trials = 0;
      const auto found =
          find_step(goal(StepGoal::Measure::kBytes, most, 4.13 * std::exp2(-bits) * off),
                    [&](double step) -> Result<StepOutcome> {
                      ++n_trials;
                      return StepOutcome{bytes_at(step, 1), false};
                    });
      ASSERT_TRUE(found);
      EXPECT_TRUE(found->keeps);
      EXPECT_EQ(found->measured, bytes_at(found->step, 1));
      EXPECT_LE(found->measured, most);
      EXPECT_GE(found->measured, 0.995 * most);
      EXPECT_LE(n_trials, off == 1 || off == 0.3 ? 8 : 13) << bits << " bits, off " << off;
    }
  }
}

TEST(StepSearch, SquaresTargetsInFewTrials) {
  for (const double nmse : {0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-8}) {
    const double most = kValues * nmse;
    int n_trials = 0;
    const auto found = find_step(goal(StepGoal::Measure::kSquares, most, std::sqrt(12 * nmse)),
                                 [&](double step) -> Result<StepOutcome> {
                                   ++n_trials;
                                   return StepOutcome{squares_at(step, 1), false};
                                 });
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->keeps);
    EXPECT_LE(found->measured, most);
    EXPECT_GE(found->measured, 0.9886 * most);
    EXPECT_LE(n_trials, 8) << nmse;
  }
}

TEST(StepSearch, NoiseDoesNotMisleadIt) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    // Noise is equal for equal steps: up to 0.2 per cent.
    const auto noisy = [&](double step) {
      std::minstd_rand random(seed + static_cast<unsigned>(step * 1e6));
      random.discard(3);
      return bytes_at(step, 1) *
             (1 + 0.002 * (std::uniform_real_distribution<double>()(random) - 0.5) * 2);
    };
    const double most = kValues * 2.5 / 8;
    const auto found = find_step(goal(StepGoal::Measure::kBytes, most, 0.5),
                                 [&](double step) -> Result<StepOutcome> {
                                   return StepOutcome{noisy(step), false};
                                 });
    ASSERT_TRUE(found && found->keeps);
    EXPECT_EQ(found->measured, noisy(found->step));
    EXPECT_LE(found->measured, most);
    EXPECT_GE(found->measured, 0.99 * most);
  }
}

TEST(StepSearch, StairsEndWithTheNearestStepThatKeeps) {
  // Bytes are whole multiples of a third of what is wanted.
  const double most = 1000;
  int n_trials = 0;
  const auto found =
      find_step(goal(StepGoal::Measure::kBytes, most, 1), [&](double step) -> Result<StepOutcome> {
        ++n_trials;
        const double smooth = 4000 / (1 + step);
        return StepOutcome{std::ceil(smooth / 350) * 350, false};
      });
  ASSERT_TRUE(found && found->keeps);
  EXPECT_EQ(found->measured, 700);
  EXPECT_LE(n_trials, 32);
}

TEST(StepSearch, TooFewBytesAreReported) {
  const auto found =
      find_step(goal(StepGoal::Measure::kBytes, 100, 1), [&](double step) -> Result<StepOutcome> {
        return StepOutcome{150 + bytes_at(step, 1), false};
      });
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->keeps);
  EXPECT_NEAR(found->measured, 150, 1);
}

TEST(StepSearch, LosslessIsTheEndOfFineSteps) {
  // From 1 bit in 8 on, lossless takes no more: more bytes than that there are not.
  const auto bounded = [](double step) {
    return StepOutcome{std::min(bytes_at(step, 1), 4e5), bytes_at(step, 1) >= 4e5};
  };
  int n_trials = 0;
  const auto found =
      find_step(goal(StepGoal::Measure::kBytes, 1e6, 0.3), [&](double step) -> Result<StepOutcome> {
        ++n_trials;
        return bounded(step);
      });
  ASSERT_TRUE(found && found->keeps);
  EXPECT_EQ(found->measured, 4e5);
  EXPECT_LE(n_trials, 8);
  // The result also has the minimum loss.
  const auto exact = find_step(
      goal(StepGoal::Measure::kSquares, 1e-3, 1), [&](double step) -> Result<StepOutcome> {
        const bool is_lossless = step < 0x1p-12;
        return StepOutcome{is_lossless ? 0 : squares_at(step, 1), is_lossless};
      });
  ASSERT_TRUE(exact && exact->keeps);
  EXPECT_EQ(exact->measured, 0);
}

TEST(StepSearch, ErrorsEndIt) {
  const auto found =
      find_step(goal(StepGoal::Measure::kBytes, 100, 1), [](double) -> Result<StepOutcome> {
        return Error{ErrorCode::kIo, "no more", {}, {}};
      });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace cfck::encode
