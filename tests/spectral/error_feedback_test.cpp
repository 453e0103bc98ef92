// The effect of weight errors on a layer's outputs, as a sum over columns in an order.
#include "spectral/feedback/error_feedback.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "spectral/feedback/step_learning.hpp"
#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {
namespace {

using Matrix = std::vector<double>;
using Order = std::vector<std::uint32_t>;

// Second moments of n numbers drawn `n_samples` times, where each predicts the next in part.
Matrix moments_of_samples(std::size_t n, std::size_t n_samples, double scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix moments(n * n);
  std::vector<double> sample(n);
  for (std::size_t s = 0; s < n_samples; ++s) {
    double last = 0;
    for (double& x : sample) {
      x = last = 0.8 * last + normal(random);
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        moments[i * n + j] += scale * sample[i] * sample[j] / static_cast<double>(n_samples);
      }
    }
  }
  return moments;
}

Order shuffled(std::size_t n, unsigned seed) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

Matrix damped(Matrix moments, std::size_t n) {
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) {
    trace += moments[i * n + i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    moments[i * n + i] += 0.01 * trace / static_cast<double>(n);
  }
  return moments;
}

// Random errors have equal cost by the matrix and by the sum over columns.
void expect_identity(const Matrix& moments, std::size_t n, const Order& order) {
  const ErrorFeedback feedback = feed_errors(moments, order);
  ASSERT_EQ(feedback.n, n);
  ASSERT_EQ(feedback.weights.size(), n);
  ASSERT_EQ(feedback.coefficients.size(), n * n);
  const Matrix matrix = damped(moments, n);
  std::mt19937 random(99);
  std::normal_distribution<double> normal;
  for (unsigned trial = 0; trial < 4; ++trial) {
    std::vector<double> errors(n);  // by column in the order
    for (double& e : errors) {
      e = normal(random);
    }
    double expected = 0;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double fed = errors[i];
      for (std::size_t j = 0; j < n; ++j) {
        expected += errors[i] * matrix[order[i] * n + order[j]] * errors[j];
        const double coefficient = feedback.coefficients[i * n + j];
        if (j >= i) {
          ASSERT_EQ(coefficient, 0);
        }
        fed += coefficient * errors[j];
      }
      sum += feedback.weights[i] * fed * fed;
    }
    EXPECT_NEAR(sum / expected, 1, 1e-5) << n;  // coefficients are floats
  }
}

TEST(ErrorFeedback, AddsUpToWhatTheMatrixSays) {
  for (const std::size_t n : {1, 2, 3, 31, 32, 33, 63, 65, 100}) {
    for (const unsigned seed : {1u, 2u}) {
      const Matrix moments = moments_of_samples(n, 3 * n + 5, 1, seed);
      expect_identity(moments, n, shuffled(n, seed));
      Order order(n);
      std::iota(order.begin(), order.end(), 0);
      expect_identity(moments, n, order);
    }
  }
}

// Only damping distinguishes columns.
TEST(ErrorFeedback, SingularMatrices) {
  for (const std::size_t n : {2, 33, 100}) {
    expect_identity(moments_of_samples(n, 1, 1, 3), n, shuffled(n, 3));
    expect_identity(moments_of_samples(n, n / 3 + 1, 1, 4), n, shuffled(n, 4));
    Matrix one_input(n * n);  // all others are always 0
    one_input[n + 1] = 5;
    expect_identity(one_input, n, shuffled(n, 5));
    expect_identity(Matrix(n * n, 1.0), n, shuffled(n, 6));
  }
}

TEST(ErrorFeedback, HugeAndTinyNumbers) {
  for (const double scale : {1e30, 1e-30, 1e38, 1e-44}) {
    expect_identity(moments_of_samples(40, 100, scale, 5), 40, shuffled(40, 7));
  }
  Matrix both = moments_of_samples(40, 100, 1, 6);
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 40; ++j) {
      both[i * 40 + j] *= (i % 2 == 0 ? 1e15 : 1e-15) * (j % 2 == 0 ? 1e15 : 1e-15);
    }
  }
  expect_identity(both, 40, shuffled(40, 8));
}

// Later columns compensate what they can of an error: weights are at least what damping adds, and
// less than the diagonal where inputs resemble each other; the last one is not predicted at all.
TEST(ErrorFeedback, WeightsAreWhatIsLeft) {
  const std::size_t n = 64;
  const Matrix moments = moments_of_samples(n, 500, 1, 7);
  const Matrix matrix = damped(moments, n);
  const Order order = shuffled(n, 9);
  const ErrorFeedback feedback = feed_errors(moments, order);
  const double added = matrix[0] - moments[0];
  double of_weights = 0;
  double of_diagonal = 0;
  for (std::size_t k = 0; k < n; ++k) {
    EXPECT_GE(feedback.weights[k], added * 0.999);
    EXPECT_LE(feedback.weights[k], matrix[order[k] * n + order[k]] * 1.001);
    of_weights += std::log(feedback.weights[k]);
    of_diagonal += std::log(matrix[order[k] * n + order[k]]);
  }
  EXPECT_NEAR(feedback.weights[n - 1] / matrix[order[n - 1] * n + order[n - 1]], 1, 1e-9);
  EXPECT_LT(of_weights, of_diagonal - 0.5 * n);
}

// Neither a trace of 0 nor a matrix that is no second moment is usable.
TEST(ErrorFeedback, MatricesThatSayNothing) {
  EXPECT_EQ(feed_errors({}, {}).n, 0u);
  for (const std::size_t n : {1, 2, 40}) {
    EXPECT_EQ(feed_errors(Matrix(n * n), shuffled(n, 1)).n, 0u);
    EXPECT_EQ(feed_errors(Matrix(n * n, -1.0), shuffled(n, 1)).n, 0u);
    EXPECT_EQ(feed_errors(Matrix(n * n, std::nan("")), shuffled(n, 1)).n, 0u);
    EXPECT_EQ(feed_errors(Matrix(n * n, std::numeric_limits<double>::infinity()), shuffled(n, 1)).n,
              0u);
  }
}

// Whatever numbers are in the matrix, the results are finite.
TEST(ErrorFeedback, MatricesThatAreNoSecondMoments) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (unsigned trial = 0; trial < 200; ++trial) {
    const std::size_t n = 2 + random() % 80;
    Matrix moments(n * n);
    const double off_diagonal = trial % 2 == 0 ? 3e38 : std::exp2(static_cast<int>(trial % 40));
    const double diagonal = trial % 3 == 0 ? 1e-44 : 1;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        moments[i * n + j] = moments[j * n + i] =
            i == j ? diagonal * std::abs(normal(random)) * (random() % 5 == 0 ? -1 : 1)
                   : off_diagonal * normal(random);
      }
    }
    const ErrorFeedback feedback = feed_errors(moments, shuffled(n, trial));
    EXPECT_TRUE(feedback.n == 0 || feedback.n == n);
    for (const double weight : feedback.weights) {
      ASSERT_TRUE(weight > 0 && std::isfinite(weight)) << trial;
    }
    for (const float coefficient : feedback.coefficients) {
      ASSERT_TRUE(std::abs(coefficient) < 1e12f) << trial << " " << coefficient;
    }
  }
}

// The DCT-II of a kernel, its last axis in the innermost place.
Matrix kernel_dct(const std::vector<std::uint32_t>& sides) {
  Matrix whole{1};
  std::size_t n = 1;
  for (const std::uint32_t side : sides) {
    const double* const entries = dct_matrix<double>(side).by_frequency;
    Matrix larger(n * side * n * side);
    for (std::size_t f = 0; f < n * side; ++f) {
      for (std::size_t t = 0; t < n * side; ++t) {
        larger[f * n * side + t] =
            whole[f / side * n + t / side] * entries[f % side * side + t % side];
      }
    }
    whole = std::move(larger);
    n *= side;
  }
  return whole;
}

TEST(TransformMoments, IsTheProductOfMatrices) {
  std::mt19937 random(13);
  std::normal_distribution<float> normal;
  for (const std::vector<std::uint32_t>& sides :
       std::vector<std::vector<std::uint32_t>>{{3, 3}, {5}, {2, 3}, {2, 3, 2}, {7, 7}}) {
    const Matrix dct = kernel_dct(sides);
    const auto kernel_size =
        static_cast<std::size_t>(std::sqrt(static_cast<double>(dct.size())) + 0.5);
    for (const std::size_t channels : {1, 3}) {
      const std::size_t n = channels * kernel_size;
      std::vector<float> moments(n * n);  // not symmetric: only the mean of both halves is used
      for (float& moment : moments) {
        moment = normal(random);
      }
      const Matrix transformed = transform_moments(moments, n, sides);
      ASSERT_EQ(transformed.size(), n * n);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          double expected = 0;
          for (std::size_t s = 0; s < kernel_size; ++s) {
            for (std::size_t t = 0; t < kernel_size; ++t) {
              const std::size_t a = i / kernel_size * kernel_size + s;
              const std::size_t b = j / kernel_size * kernel_size + t;
              const double moment = (double{moments[a * n + b]} + double{moments[b * n + a]}) / 2;
              expected += dct[i % kernel_size * kernel_size + s] * moment *
                          dct[j % kernel_size * kernel_size + t];
            }
          }
          ASSERT_NEAR(transformed[i * n + j], expected, 1e-12 * static_cast<double>(kernel_size));
        }
      }
    }
  }
}

TEST(TransformMoments, WithoutSidesItIsTheSymmetricHalf) {
  const std::vector<float> moments = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(transform_moments(moments, 3, {}), (Matrix{1, 3, 5, 3, 5, 7, 5, 7, 9}));
}

// If all weights are four times a mean, the right step is half of that for the mean.
TEST(StepsOfWeights, OverAnotherMean) {
  const auto sum_of = [](const SeparableSteps& steps) {
    return int{steps.bands[0]} + int{steps.columns[0]};
  };
  const Matrix weights(12, 4.0);
  EXPECT_EQ(sum_of(steps_of_weights(weights, 3, 4.0)), 0);
  EXPECT_EQ(sum_of(steps_of_weights(weights, 3, 1.0)), -4);
  EXPECT_EQ(sum_of(steps_of_weights(weights, 3, 16.0)), 4);
  Matrix uneven = weights;
  uneven[5] = 64;
  const double mean = std::accumulate(uneven.begin(), uneven.end(), 0.0) / 12;
  const SeparableSteps by_own = steps_of_weights(uneven, 3);
  const SeparableSteps given = steps_of_weights(uneven, 3, mean);
  EXPECT_EQ(by_own.bands, given.bands);
  EXPECT_EQ(by_own.columns, given.columns);
}

}  // namespace
}  // namespace cfck::spectral
