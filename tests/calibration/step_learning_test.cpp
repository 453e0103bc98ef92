#include "spectral/feedback/step_learning.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {
namespace {

TEST(StepLearning, QuarterOctavesAreNearest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponents(-300, 300);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::exp2(exponents(random));
    const double exact = 4 * std::log2(x);
    EXPECT_NEAR(nearest_quarter_octaves(x), exact, 0.5 + 0.004);
  }
  for (int quarters = -40; quarters <= 40; ++quarters) {
    EXPECT_EQ(nearest_quarter_octaves(std::exp2(quarters / 4.0)), quarters);
  }
}

TEST(StepLearning, SeparableWeightsGiveTheirInverseRoots) {
  const int bands[] = {-6, 0, 2, 5};
  const int columns[] = {3, -3, 1, -1, 0};
  std::vector<double> weights;
  for (const int column : columns) {
    for (const int band : bands) {
      weights.push_back(7e-5 * std::exp2(-(band + column) / 2.0));  // steps to the power -2
    }
  }
  const SeparableSteps steps = steps_of_weights(weights, 4);
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_EQ(steps.columns[c], columns[c]);
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_NEAR(steps.bands[b] - steps.bands[0], bands[b] - bands[0], 1);
    }
  }
}

// The weighted errors of these steps sum up to those of step 1 for all.
TEST(StepLearning, KeepsTheSumOfWeightedErrors) {
  std::mt19937 random(2);
  std::lognormal_distribution<double> drawn(0, 1.5);
  std::vector<double> weights(40 * 9);
  for (double& weight : weights) {
    weight = drawn(random);
  }
  std::vector<double> columns(40, 1.0), bands(9);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = columns[i / 9] * (i % 9 < 3 ? 20.0 : 0.5);
  }
  const SeparableSteps steps = steps_of_weights(weights, 9);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    before += weights[i];
    after += weights[i] * std::exp2((steps.bands[i % 9] + steps.columns[i / 9]) / 2.0);
  }
  EXPECT_NEAR(after / before, 1, 0.15);
}

TEST(StepLearning, WeightsThatSayNothing) {
  const std::vector<double> none(12, 0.0);
  EXPECT_EQ(steps_of_weights(none, 3).bands, std::vector<std::int16_t>(3, 0));
  std::vector<double> one(12, 0.0);
  one[5] = 1;  // the others are damped, and held
  const SeparableSteps steps = steps_of_weights(one, 3);
  for (const std::int16_t quarters : steps.columns) {
    EXPECT_LE(std::abs(quarters), 16);
  }
}

// Against the full product with the matrix of the transform.
TEST(StepLearning, WeightsOfKernels) {
  const std::uint32_t sides[] = {3, 2};
  const std::size_t n = 12;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> moments(n * n);
  std::vector<float> x(n);
  for (int example = 0; example < 30; ++example) {
    for (float& value : x) {
      value = normal(random);
    }
    for (std::size_t i = 0; i < n * n; ++i) {
      moments[i] += x[i / n] * x[i % n];
    }
  }
  const std::vector<double> weights = kernel_weights(moments, n, sides);
  const DctMatrix<double>& a = dct_matrix<double>(3);
  const DctMatrix<double>& b = dct_matrix<double>(2);
  for (std::size_t channel = 0; channel < 2; ++channel) {
    for (std::size_t f = 0; f < 6; ++f) {
      double expected = 0;
      for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 6; ++j) {
          const auto factor = [&](std::size_t position) {
            return a.by_frequency[f / 2 * 3 + position / 2] *
                   b.by_frequency[f % 2 * 2 + position % 2];
          };
          expected +=
              factor(i) * factor(j) * double{moments[(6 * channel + i) * n + 6 * channel + j]};
        }
      }
      EXPECT_NEAR(weights[6 * channel + f], expected, 1e-9 * std::abs(expected) + 1e-9);
    }
  }
}

}  // namespace
}  // namespace cfck::spectral
