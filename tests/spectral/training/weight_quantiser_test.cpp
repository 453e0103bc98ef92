#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "cfck/training.hpp"
#include "spectral/training/kernels.hpp"
#include "spectral/transforms/dct.hpp"
#include "tests/spectral/spectral_coding.hpp"

namespace cfck::spectral {
namespace {

struct Case {
  const char* name;
  Shape shape;
  std::vector<std::uint8_t> block;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

// Steps with entries everywhere, whole quarters if asked.
struct SomeSteps {
  SomeSteps(const WeightQuantiser& quantiser, double step_of_tensor, std::int32_t unit)
      : step(step_of_tensor) {
    const auto fill = [unit](std::vector<std::int32_t>& exponents, std::uint64_t n, int seed) {
      for (std::uint64_t i = 0; i < n; ++i) {
        exponents.push_back(unit * static_cast<std::int32_t>((i * 7 + seed) % 9) - 4 * unit);
      }
    };
    fill(bands, quantiser.n_bands(), 1);
    fill(rows, quantiser.n_rows(), 2);
    fill(columns, quantiser.n_columns(), 3);
  }
  TrainingSteps view() const { return {step, bands, rows, columns}; }

  double step;
  std::vector<std::int32_t> bands, rows, columns;
};

struct SomeGradients {
  explicit SomeGradients(const WeightQuantiser& quantiser)
      : bands(quantiser.n_bands()), rows(quantiser.n_rows()), columns(quantiser.n_columns()) {}
  TrainingStepGradients view() { return {bands, rows, columns}; }
  double sum_of_bands() const { return std::accumulate(bands.begin(), bands.end(), 0.0); }
  double sum_of_rows() const { return std::accumulate(rows.begin(), rows.end(), 0.0); }
  double sum_of_columns() const { return std::accumulate(columns.begin(), columns.end(), 0.0); }

  std::vector<float> bands, rows, columns;
};

std::vector<std::int16_t> quarters_of(const std::vector<std::int32_t>& exponents) {
  std::vector<std::int16_t> quarters;
  for (const std::int32_t exponent : exponents) {
    quarters.push_back(static_cast<std::int16_t>(exponent / kTrainingStepsPerQuarter));
  }
  return quarters;
}

class WeightQuantisers : public testing::TestWithParam<Case> {
 protected:
  WeightQuantiser quantiser_ = *WeightQuantiser::create(GetParam().shape, GetParam().block);
  std::vector<float> weights_ = normal_values(n_values_of(GetParam().shape), 0.05f);

  // Turns values into coefficients.
  void transform(std::vector<float>& values) const {
    const std::vector<std::uint8_t>& block = quantiser_.block();
    std::vector<std::uint32_t> sides(GetParam().shape.size() - block.size(), 1);
    sides.insert(sides.end(), block.begin(), block.end());
    forward_dct(values.data(), GetParam().shape, sides);
  }
};

// The promise of training: what the forward pass computes is what a file decodes to.
TEST_P(WeightQuantisers, ValuesAreThoseOfTheFile) {
  for (const double step : {0.003, 0.07, 0.9}) {
    const SomeSteps steps(quantiser_, step, kTrainingStepsPerQuarter);
    std::vector<float> values(weights_.size());
    ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), values));
    LossyRecord record = record_of(GetParam().shape, step, 1);
    const std::uint64_t row = weights_.size() / GetParam().shape[0];
    record.chunk_elems = (std::uint64_t{1} << 18) / row * row;
    SpectralRequest& request = edited_request(record);
    request.has_block_bands = true;
    request.block = quantiser_.block();
    if (request.block.empty()) {
      request.block.assign(GetParam().shape.size(), 1);
    }
    const std::vector<std::int16_t> ranges = quarters_of(steps.bands);
    for (const std::uint32_t range : quantiser_.range_of_band()) {
      request.steps.bands.push_back(ranges[range]);
    }
    request.steps.rows = quarters_of(steps.rows);
    request.steps.columns = quarters_of(steps.columns);
    const Coded coded = code(record, bytes_of(values));
    ASSERT_TRUE(coded.has_plan);
    EXPECT_EQ(std::memcmp(coded.decoded.data(), values.data(), coded.decoded.size()), 0) << step;
  }
}

TEST_P(WeightQuantisers, RoundingTwiceChangesNothing) {
  const SomeSteps steps(quantiser_, 0.02, 37);
  std::vector<float> values(weights_.size());
  std::vector<float> again(weights_.size());
  ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), values));
  ASSERT_TRUE(quantiser_.quantise(values, steps.view(), again));
  EXPECT_EQ(values, again);
}

TEST_P(WeightQuantisers, ThreadsDoNotMatter) {
  const SomeSteps steps(quantiser_, 0.02, 5);
  std::vector<float> one(weights_.size());
  std::vector<float> three(weights_.size());
  ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), one, 1));
  ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), three, 3));
  EXPECT_EQ(one, three);
  SomeGradients of_one(quantiser_);
  SomeGradients of_three(quantiser_);
  ASSERT_TRUE(quantiser_.step_gradients(weights_, steps.view(), one, 0, of_one.view(), 1));
  ASSERT_TRUE(quantiser_.step_gradients(weights_, steps.view(), one, 0, of_three.view(), 3));
  EXPECT_EQ(of_one.bands, of_three.bands);
  EXPECT_EQ(of_one.rows, of_three.rows);
  EXPECT_EQ(of_one.columns, of_three.columns);
}

// While no level changes, decoded coefficients are in proportion to their steps: the derivative of
// <g, values> by log2 of the step is ln 2 <g, values - weights> with g constant.
TEST_P(WeightQuantisers, StepGradientsAreThoseOfConstantDifferences) {
  const SomeSteps steps(quantiser_, 0.02, 5);
  std::vector<float> values(weights_.size());
  ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), values));
  const std::vector<float> of_values = normal_values(weights_.size(), 1, 9);
  double expected = 0;
  double size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double one = std::log(2.0) * of_values[i] * (double{values[i]} - weights_[i]);
    expected += one;
    size += std::abs(one);
  }
  SomeGradients gradients(quantiser_);
  ASSERT_TRUE(quantiser_.step_gradients(weights_, steps.view(), of_values, 0, gradients.view()));
  if (quantiser_.n_bands() > 0) {
    EXPECT_NEAR(gradients.sum_of_bands(), expected, 1e-5 * size);
  }
  EXPECT_NEAR(gradients.sum_of_rows(), expected, 1e-5 * size);
  EXPECT_NEAR(gradients.sum_of_columns(), expected, 1e-5 * size);
}

// The second order: half the curvature times squared errors, which grow with the square of steps.
TEST_P(WeightQuantisers, CurvaturesComeFromSquaredGradients) {
  const SomeSteps steps(quantiser_, 0.02, 5);
  std::vector<float> values(weights_.size());
  ASSERT_TRUE(quantiser_.quantise(weights_, steps.view(), values));
  const std::vector<float> of_values = normal_values(weights_.size(), 1, 9);
  std::vector<float> errors(weights_.size());
  std::transform(values.begin(), values.end(), weights_.begin(), errors.begin(), std::minus<>());
  std::vector<float> of_coefficients = of_values;
  transform(errors);
  transform(of_coefficients);
  double expected = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double change = double{of_coefficients[i]} * errors[i];
    expected += std::log(2.0) * 32 * change * change;
  }
  SomeGradients gradients(quantiser_);
  ASSERT_TRUE(quantiser_.step_gradients(weights_, steps.view(), of_values, 32, gradients.view()));
  EXPECT_NEAR(gradients.sum_of_rows(), expected, 1e-4 * expected);
  EXPECT_NEAR(gradients.sum_of_columns(), expected, 1e-4 * expected);
}

// At high rates bits are smooth enough for finite differences.
TEST_P(WeightQuantisers, BitGradientsAreThoseOfTheBits) {
  const SomeSteps steps(quantiser_, 0.004, 5);
  std::vector<std::uint8_t> bins(weights_.size());
  const Result<TrainingRate> rate = quantiser_.fit_rate(weights_, steps.view(), bins);
  ASSERT_TRUE(rate) << rate.error().message;
  std::vector<float> of_weights(weights_.size());
  SomeGradients gradients(quantiser_);
  ASSERT_TRUE(quantiser_.bit_gradients(weights_, steps.view(), bins, rate->family, 1, of_weights,
                                       gradients.view()));
  const auto bits_at = [&](double factor_of_step) {
    TrainingSteps view = steps.view();
    view.step *= factor_of_step;
    return *quantiser_.bits(weights_, view, bins, rate->family);
  };
  const double octave = 0.125;
  const double slope = (bits_at(std::exp2(octave)) - bits_at(std::exp2(-octave))) / (2 * octave);
  EXPECT_NEAR(gradients.sum_of_columns(), slope, 0.1 * std::abs(slope) + 0.02 * weights_.size());
  EXPECT_LT(slope, 0);
  // Weights and steps only count by their quotient.
  double of_all = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    of_all += std::log(2.0) * weights_[i] * of_weights[i];
  }
  EXPECT_NEAR(gradients.sum_of_rows(), -of_all, 1e-3 * std::abs(of_all));
}

TEST_P(WeightQuantisers, TheRateIsThatOfTheRecord) {
  for (const double step : {0.004, 0.03, 0.1}) {
    const SomeSteps steps(quantiser_, step, 5);
    std::vector<std::uint8_t> bins(weights_.size());
    const Result<TrainingRate> rate = quantiser_.fit_rate(weights_, steps.view(), bins);
    ASSERT_TRUE(rate) << rate.error().message;
    const Result<double> bits = quantiser_.bits(weights_, steps.view(), bins, rate->family);
    ASSERT_TRUE(bits);
    // On top come the ends of lanes, fields and headers, less what explicit tables save.
    EXPECT_LT(*bits, 1.1 * static_cast<double>(rate->stored_bits) + 64);
    const double most =
        3000.0 +
        8.0 * static_cast<double>(steps.rows.size() + steps.columns.size() + steps.bands.size());
    EXPECT_GT(*bits, static_cast<double>(rate->stored_bits) - most - 0.02 * *bits);
  }
}

TEST_P(WeightQuantisers, ARecordOfZerosTakesNothing) {
  const SomeSteps steps(quantiser_, 1e6, 0);
  std::vector<std::uint8_t> bins(weights_.size());
  const Result<TrainingRate> rate = quantiser_.fit_rate(weights_, steps.view(), bins);
  ASSERT_TRUE(rate) << rate.error().message;
  EXPECT_EQ(rate->stored_bits, 0u);
  weights_.back() = 1e7f;  // one level is enough
  const Result<TrainingRate> of_one = quantiser_.fit_rate(weights_, steps.view(), bins);
  ASSERT_TRUE(of_one) << of_one.error().message;
  EXPECT_GT(of_one->stored_bits, 0u);
}

TEST_P(WeightQuantisers, EveryLevelOfTheCpuGivesTheSame) {
  if (cpu_level() == CpuLevel::kBaseline) {
    GTEST_SKIP() << "this CPU has the baseline alone: there is nothing to compare it with";
  }
  const std::size_t n = std::min<std::size_t>(weights_.size(), 4000);
  std::vector<float> steps(n);
  std::vector<std::uint8_t> bins(n);
  for (std::size_t i = 0; i < n; ++i) {
    steps[i] = 0.001f * static_cast<float>(1 + i % 50);
    bins[i] = static_cast<std::uint8_t>(i % (kMaxSpectralBin + 1));
  }
  const TrainingKernels& reference = training_kernels_of(CpuLevel::kBaseline);
  for (const CpuLevel level : {CpuLevel::kV3, CpuLevel::kV4}) {
    if (level > cpu_level()) {
      continue;
    }
    const TrainingKernels& kernels = training_kernels_of(level);
    std::vector<float> expected(weights_.begin(), weights_.begin() + static_cast<long>(n));
    std::vector<float> found = expected;
    reference.quantise(expected.data(), steps.data(), n);
    kernels.quantise(found.data(), steps.data(), n);
    EXPECT_EQ(std::memcmp(expected.data(), found.data(), 4 * n), 0);
    const RateTables& tables = rate_tables(7);
    EXPECT_EQ(reference.bits(weights_.data(), steps.data(), bins.data(), tables, n),
              kernels.bits(weights_.data(), steps.data(), bins.data(), tables, n));
    std::vector<float> sums(n);
    std::vector<float> other_sums(n);
    EXPECT_EQ(
        reference.step_gradients(weights_.data(), weights_.data(), steps.data(), 3, n, sums.data()),
        kernels.step_gradients(weights_.data(), weights_.data(), steps.data(), 3, n,
                               other_sums.data()));
    EXPECT_EQ(reference.bit_gradients(expected.data(), steps.data(), bins.data(), tables, 0.5f, n,
                                      sums.data()),
              kernels.bit_gradients(found.data(), steps.data(), bins.data(), tables, 0.5f, n,
                                    other_sums.data()));
    EXPECT_EQ(expected, found);
    EXPECT_EQ(sums, other_sums);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, WeightQuantisers,
    testing::Values(Case{"kernels", {16, 16, 3, 3}, {}}, Case{"many_kernels", {70, 64, 3, 3}, {}},
                    Case{"two_chunks", {128, 256, 3, 3}, {}},
                    Case{"large_kernels", {8, 3, 7, 7}, {}}, Case{"one_axis", {12, 8, 5}, {}},
                    Case{"matrix", {64, 200}, {}}, Case{"long_rows", {2, 32000}, {}},
                    Case{"square_blocks", {64, 96}, {8, 8}}, Case{"cut_blocks", {61, 70}, {8, 16}},
                    Case{"high_blocks", {100, 30}, {64, 1}},
                    Case{"plain_kernels", {16, 16, 3, 3}, {1, 1}},
                    Case{"cubes", {4, 4, 6, 6, 6}, {2, 3, 3, 3}}),
    [](const auto& of) { return std::string(of.param.name); });

TEST(WeightQuantiserErrors, ShapesAndBlocks) {
  EXPECT_EQ(WeightQuantiser::create({0, 3}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(WeightQuantiser::create({8, 8}, {65, 1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(WeightQuantiser::create({8, 8}, {0, 1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(WeightQuantiser::create({8, 64, 64}, {64, 64, 2}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(WeightQuantiserErrors, RowsThatFilesHaveNoFieldsFor) {
  EXPECT_EQ(WeightQuantiser::create({2, 40000}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(WeightQuantiser::create({64, 30000}, {64, 1}).error().code, ErrorCode::kUnsupported);
}

TEST(WeightQuantiserErrors, SpansAndSteps) {
  const WeightQuantiser quantiser = *WeightQuantiser::create({4, 3, 3, 3});
  std::vector<float> values(108);
  std::vector<std::uint8_t> bins(108);
  const auto refused = [&](const TrainingSteps& steps) {
    const Result<void> result = quantiser.quantise(values, steps, values);
    return !result && result.error().code == ErrorCode::kInvalidArgument;
  };
  const std::vector<std::int32_t> four(4);
  const std::vector<std::int32_t> far{0, 0, 1 << 20, 0};
  EXPECT_TRUE(refused({0.0, {}, {}, {}}));
  EXPECT_TRUE(refused({-1.0, {}, {}, {}}));
  EXPECT_TRUE(refused({NAN, {}, {}, {}}));
  EXPECT_TRUE(refused({1e300, {}, {}, {}}));
  EXPECT_TRUE(refused({1.0, four, {}, {}}));
  EXPECT_TRUE(refused({1.0, {}, {}, four}));
  EXPECT_TRUE(refused({1.0, {}, far, {}}));
  EXPECT_FALSE(refused({1.0, {}, four, {}}));
  const std::span<const float> short_values(values.data(), 107);
  EXPECT_FALSE(quantiser.quantise(short_values, {}, values));
  EXPECT_FALSE(quantiser.bits(values, {}, bins, 8));
  bins[7] = 126;
  EXPECT_FALSE(quantiser.bits(values, {}, bins, 0));
}

TEST(WeightQuantiserErrors, WeightsThatAreNotFinite) {
  for (const std::vector<std::uint8_t>& block : {std::vector<std::uint8_t>{}, {8, 8}}) {
    const WeightQuantiser quantiser = *WeightQuantiser::create({8, 32}, block);
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> weights(256, 0.1f);
      weights[77] = value;
      std::vector<float> of_weights(256);
      SomeGradients gradients(quantiser);
      for (unsigned bin = 0; bin <= kMaxSpectralBin; ++bin) {
        std::vector<std::uint8_t> bins(256, static_cast<std::uint8_t>(bin));
        EXPECT_TRUE(quantiser.bits(weights, {}, bins, 0));
        EXPECT_TRUE(quantiser.bit_gradients(weights, {}, bins, 0, 1, of_weights, gradients.view()));
      }
      std::vector<std::uint8_t> bins(256);
      const Result<TrainingRate> rate = quantiser.fit_rate(weights, {}, bins);
      ASSERT_FALSE(rate);
      EXPECT_EQ(rate.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace cfck::spectral
