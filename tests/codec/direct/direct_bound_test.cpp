// No decoded value is beyond the bound, whatever the input, and the encoder's statements about the
// decoded values are true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/codec/direct/direct_cases.hpp"

namespace cfck::codec {
namespace {

struct Coded {
  DirectChunk chunk;
  std::vector<std::byte> decoded;
};

Coded code(const DirectChunkInfo& info, const DirectParameters& parameters,
           const DirectBounds& bounds, const std::vector<std::byte>& values, Scratch& scratch) {
  Coded coded;
  coded.decoded.resize(values.size());
  const auto done = encode_direct(info, parameters, ParameterPlace::kInline, bounds, values,
                                  scratch, coded.decoded, coded.chunk);
  EXPECT_TRUE(done) << done.error().message;
  std::vector<std::byte> back(values.size(), std::byte{0xee});
  const ByteView payload = coded.chunk.encoded.payload;
  const auto body = direct_body_bytes(info, payload);
  EXPECT_TRUE(body) << body.error().message;
  EXPECT_EQ(*body, coded.chunk.encoded.body_bytes);
  const auto decoded = decode_direct(info, payload, scratch, back);
  EXPECT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(back == coded.decoded);
  return coded;
}

void expect_bound(DType dtype, const Coded& coded, const std::vector<std::byte>& values,
                  double bound) {
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  double worst = 0;
  std::size_t n_finite = 0;
  for (std::size_t i = 0; i < values.size(); i += value_bytes) {
    const double x = double_of(dtype, values.data() + i);
    const double y = double_of(dtype, coded.decoded.data() + i);
    if (!std::isfinite(x)) {
      ASSERT_EQ(std::memcmp(values.data() + i, coded.decoded.data() + i, value_bytes), 0);
      continue;
    }
    ++n_finite;
    ASSERT_TRUE(within(x, y, bound)) << x << " became " << y << ", bound " << bound;
    worst = std::max(worst, std::fabs(x - y));
  }
  EXPECT_EQ(coded.chunk.errors.max_error, worst);
  EXPECT_EQ(coded.chunk.errors.n_finite, n_finite);
}

DirectChunkInfo chunk_of(DType dtype, const std::vector<std::uint64_t>& shape) {
  DirectChunkInfo info;
  info.dtype = dtype;
  info.shape = shape;
  info.n_elems = 1;
  for (const std::uint64_t n : shape) {
    info.n_elems *= n;
  }
  return info;
}

DirectParameters parameters_of(double bound) {
  DirectParameters parameters;
  parameters.step = *step_of(bound);
  return parameters;
}

class DirectBound : public testing::TestWithParam<std::tuple<DType, EntropyId>> {
 protected:
  static DType dtype() { return std::get<0>(GetParam()); }
  static DirectChunkInfo info_of(const std::vector<std::uint64_t>& shape) {
    DirectChunkInfo info = chunk_of(dtype(), shape);
    info.entropy = std::get<1>(GetParam());
    return info;
  }
};

TEST_P(DirectBound, Spreads) {
  Scratch scratch;
  for (const Spread spread : {Spread::kGaussian, Spread::kLaplace, Spread::kHeavy}) {
    for (const double bound : {1e-6, 1e-4, 3e-3, 0.02, 0.3}) {
      const auto values = make_spread(dtype(), spread, 5000, 0.05);
      const std::vector<std::uint64_t> shape{50, 100};
      const Coded coded = code(info_of(shape), parameters_of(bound), {bound, {}}, values, scratch);
      expect_bound(dtype(), coded, values, bound);
      EXPECT_LT(coded.chunk.encoded.payload.size(), values.size());
    }
  }
}

TEST_P(DirectBound, EveryPatternAndBound) {
  Scratch scratch;
  for (const Pattern pattern : kAllPatterns) {
    for (const double bound :
         {1e-300, 1e-200, 1e-45, 1e-38, 1e-20, 1e-9, 1e-4, 0.25, 1.0, 7e4, 1e30, 1e300}) {
      const auto values = make_values(dtype(), pattern, 700);
      const std::vector<std::uint64_t> shape{7, 100};
      const Coded coded = code(info_of(shape), parameters_of(bound), {bound, {}}, values, scratch);
      SCOPED_TRACE(describe(dtype(), pattern, 700));
      expect_bound(dtype(), coded, values, bound);
    }
  }
}

TEST_P(DirectBound, Sizes) {
  Scratch scratch;
  for (const std::uint64_t n : {1u, 2u, 7u, 127u, 128u, 129u, 255u, 1000u, 1u << 18}) {
    const auto values = make_spread(dtype(), Spread::kGaussian, n, 0.05);
    const std::vector<std::uint64_t> shape{n};
    const Coded coded = code(info_of(shape), parameters_of(1e-3), {1e-3, {}}, values, scratch);
    expect_bound(dtype(), coded, values, 1e-3);
  }
}

// Values exactly halfway between two indices, where rounding decides.
TEST_P(DirectBound, HalfwayValues) {
  Scratch scratch;
  const std::size_t value_bytes = bits_per_element(dtype()) / 8;
  for (const double bound : {0.125, 0.1, 1e-3, 0x1p-20}) {
    std::vector<std::byte> values(2000 * value_bytes);
    for (int i = 0; i < 2000; ++i) {
      const double edge = (i - 1000) * bound + (i % 3 - 1) * bound * 0x1p-22;
      put_double(dtype(), edge, values.data() + static_cast<std::size_t>(i) * value_bytes);
    }
    const std::vector<std::uint64_t> shape{2000};
    for (const double step : {*step_of(bound), 2 * bound}) {
      DirectParameters parameters;
      parameters.step = step;
      const Coded coded = code(info_of(shape), parameters, {bound, {}}, values, scratch);
      expect_bound(dtype(), coded, values, bound);
    }
  }
}

TEST_P(DirectBound, StepForEachRow) {
  Scratch scratch;
  const auto values = make_spread(dtype(), Spread::kLaplace, 4000, 0.05);
  const std::vector<std::uint64_t> shape{40, 100};
  DirectParameters parameters;
  std::vector<double> bounds;
  for (int row = 0; row < 40; ++row) {
    bounds.push_back(row == 0 ? 0 : 1e-4 * row);
    parameters.row_steps.push_back(*row_step_of(bounds.back()));
    EXPECT_LE(row_step_value(parameters.row_steps.back()), 2 * bounds.back());
  }
  const Coded coded = code(info_of(shape), parameters, {0, bounds}, values, scratch);
  const std::size_t value_bytes = bits_per_element(dtype()) / 8;
  for (std::size_t i = 0; i < 4000; ++i) {
    ASSERT_TRUE(within(double_of(dtype(), values.data() + i * value_bytes),
                       double_of(dtype(), coded.decoded.data() + i * value_bytes),
                       bounds[i / 100]));
  }
}

// In a 16-bit type a power of two as step gives values of the type itself.
TEST(DirectBound16, PowerOfTwoStepNeverEscapes) {
  Scratch scratch;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto values = make_spread(dtype, Spread::kGaussian, 5000, 0.05);
    const std::vector<std::uint64_t> shape{5000};
    for (const double bound : {1e-5, 1e-4, 7e-4}) {
      DirectParameters parameters;
      parameters.step = power_of_two_below(*step_of(bound));
      std::vector<std::byte> decoded(values.size());
      const DirectKernels& kernels = direct_kernels();
      std::vector<std::int32_t> indices(5000);
      ValueSteps steps;
      steps.step = parameters.step;
      steps.bound = bound;
      const QuantisedTotals totals =
          kernels.quantise(dtype, values.data(), 5000, steps, indices.data(), decoded.data());
      EXPECT_EQ(totals.errors.n_exact, 0u);
      const Coded coded = code(chunk_of(dtype, shape), parameters, {bound, {}}, values, scratch);
      expect_bound(dtype, coded, values, bound);
    }
  }
}

TEST(DirectRms, SumOfSquaresIsThatOfTheDecodedValues) {
  Scratch scratch;
  const auto values = make_spread(DType::kF32, Spread::kGaussian, 10000, 0.05);
  const std::vector<std::uint64_t> shape{10000};
  const Coded coded =
      code(chunk_of(DType::kF32, shape), parameters_of(1e-3), {1e-3, {}}, values, scratch);
  double sum = 0;
  double sum_of_values = 0;
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const double value = double_of(DType::kF32, values.data() + i);
    const double error = value - double_of(DType::kF32, &coded.decoded[i]);
    sum += error * error;
    sum_of_values += value * value;
  }
  EXPECT_NEAR(coded.chunk.errors.sum_of_value_squares, sum_of_values, 1e-9 * sum_of_values);
  EXPECT_NEAR(coded.chunk.errors.sum_of_squares, sum, 1e-9 * sum);
  // Errors of a fine quantiser are uniform: step^2 / 12 on average.
  EXPECT_NEAR(sum / 10000, 4e-6 / 12, 0.05 * 4e-6 / 12);
}

TEST(DirectSteps, RoundedDownAndRefused) {
  for (const double bound : {1e-300, 3e-45, 1e-4, 0.1, 1.0, 1e30, 1e300}) {
    const double step = *step_of(bound);
    const Quad ideal = 2 * static_cast<Quad>(bound) * (1 - 0x1p-20);
    EXPECT_LE(static_cast<Quad>(step), ideal);
    EXPECT_GT(static_cast<Quad>(step) * (1 + 0x1p-51), ideal);
  }
  for (const double bound : {0.0, -1.0, 1e-310, 1e305, double(NAN), double(INFINITY)}) {
    EXPECT_FALSE(step_of(bound));
  }
  EXPECT_FALSE(row_step_of(-1.0));
  EXPECT_EQ(*row_step_of(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Floats, DirectBound,
                         testing::Combine(testing::Values(DType::kF64, DType::kF32, DType::kBF16,
                                                          DType::kF16),
                                          testing::ValuesIn(kBothStages)),
                         [](const auto& test) {
                           return std::string(dtype_name(std::get<0>(test.param))) + "_" +
                                  std::string(entropy_name(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace cfck::codec
