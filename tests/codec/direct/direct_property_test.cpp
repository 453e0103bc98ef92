// Properties of the direct codec for any values: the bound, compared in exact arithmetic, and the
// measured errors, to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "codec/direct/kernels/quantise.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/codec/exact_number.hpp"

namespace cfck::codec {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Pattern kWildPatterns[] = {Pattern::kRandomBits, Pattern::kSpecials, Pattern::kWideRange,
                                     Pattern::kSparseSigned};

struct Features {
  bool prediction = false;
  bool field = false;
  bool rows = false;
};
constexpr Features kFeatures[] = {
    {}, {true, false, false}, {false, true, false}, {true, true, false}, {true, true, true}};

// A chunk of values first .. first+n of a tensor, and the parameters to code it with.
struct Chunk {
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t first;
  std::uint64_t n;
  DirectParameters parameters;
  double bound;
  std::vector<double> row_bounds;

  DirectChunkInfo info(EntropyId entropy = EntropyId::kZstd) const {
    return {dtype, entropy, shape, first, n, nullptr};
  }
  std::size_t value_bytes() const { return bits_per_element(dtype) / 8; }
  double bound_of(std::uint64_t i) const {
    return row_bounds.empty() ? bound
                              : row_bounds[(first + i) / direct_geometry(shape)->row_values()];
  }
};

Chunk make_chunk(DType dtype, std::vector<std::uint64_t> shape, std::uint64_t first,
                 std::uint64_t n, double bound, Features features) {
  Chunk chunk{dtype, std::move(shape), first, n, {}, bound, {}};
  const DirectGeometry geometry = *direct_geometry(chunk.shape);
  Random random(first + n);
  const auto fill = [&](std::vector<std::int16_t>& vector, std::uint64_t count, int base) {
    for (std::uint64_t i = 0; i < count; ++i) {
      vector.push_back(static_cast<std::int16_t>(base + static_cast<int>(random.next() % 60)));
    }
  };
  chunk.parameters.step = *step_of(bound);
  if (features.rows) {
    const double factors[] = {1, 0, 0x1p-70, 0x1p70, 0.3};
    for (std::uint64_t row = 0; row < geometry.rows; ++row) {
      chunk.row_bounds.push_back(std::min(bound * factors[row % 5], 0x1p1000));
      if (chunk.row_bounds.back() < 0x1p-1000) {
        chunk.row_bounds.back() = 0;
      }
      chunk.parameters.row_steps.push_back(*row_step_of(chunk.row_bounds.back()));
    }
  }
  if (features.prediction) {
    fill(chunk.parameters.coefficients, n_coefficients(geometry.kernel_size), -30);
  }
  if (features.field) {
    fill(chunk.parameters.field.bands, geometry.kernel_size, 0);
    fill(chunk.parameters.field.rows, geometry.rows, -20);
    fill(chunk.parameters.field.columns, geometry.columns, 0);
  }
  return chunk;
}

// Decodes the chunk's values; checks with both stages that the encoder reports equal values. Where
// one of them stores the chunk losslessly, those of the other are returned.
Bytes decoded_values(const Chunk& chunk, const Bytes& values, Scratch& scratch,
                     ErrorTotals* errors = nullptr) {
  Bytes kept;
  for (const EntropyId entropy : kBothStages) {
    DirectChunk coded;
    Bytes said(values.size());
    DirectChunkInfo info = chunk.info(entropy);
    const ParameterPlace place = place_of(chunk.parameters, info);
    const auto done = encode_direct(info, chunk.parameters, place, {chunk.bound, chunk.row_bounds},
                                    values, scratch, said, coded);
    EXPECT_TRUE(done) << done.error().message;
    Bytes decoded(values.size(), std::byte{0xee});
    const auto back = decode_direct(info, coded.encoded.payload, scratch, decoded);
    EXPECT_TRUE(back) << back.error().message;
    EXPECT_TRUE(decoded == said);
    if (coded.encoded.payload[0] >= std::byte{4} || kept.empty()) {
      kept = std::move(decoded);
      if (errors != nullptr) {
        *errors = coded.errors;
      }
    }
  }
  return kept;
}

void expect_bound(const Chunk& chunk, const Bytes& values, const Bytes& decoded) {
  for (std::uint64_t i = 0; i < chunk.n; ++i) {
    const std::byte* const before = values.data() + i * chunk.value_bytes();
    const std::byte* const after = decoded.data() + i * chunk.value_bytes();
    if (std::memcmp(before, after, chunk.value_bytes()) == 0) {
      continue;
    }
    const double x = double_of(chunk.dtype, before);
    const double y = double_of(chunk.dtype, after);
    ASSERT_TRUE(std::isfinite(x) && std::isfinite(y)) << x << " became " << y;
    ASSERT_TRUE(exactly_within(x, y, chunk.bound_of(i)))
        << x << " became " << y << ", bound " << chunk.bound_of(i) << ", value " << i;
  }
}

class DirectProperty : public testing::TestWithParam<DType> {};

TEST(ExactNumbers, AreExact) {
  const double largest = std::numeric_limits<double>::max();
  const double min = std::numeric_limits<double>::denorm_min();
  EXPECT_TRUE(exactly_within(largest, largest, 0));
  EXPECT_TRUE(exactly_within(1, 1 - 0x1p-53, 0x1p-53));
  EXPECT_FALSE(exactly_within(1, 1 - 0x1p-53, 0x1.fffffffffffffp-54));
  EXPECT_TRUE(exactly_within(largest, -min, largest) == false);
  EXPECT_TRUE(exactly_within(-min, largest, largest) == false);
  EXPECT_TRUE(exactly_within(largest, min, largest));
  EXPECT_TRUE(exactly_within(0.5, -min, 0.5) == false);
  EXPECT_TRUE(exactly_within(3 * min, min, 2 * min));
  EXPECT_FALSE(exactly_within(min, 3 * min, min));
}

// Also where the difference has more bits than a binary64.
TEST(ExactNumbers, AgreeWithTheComparisonOfTheEncoder) {
  Random random(8);
  unsigned n_kept = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto number = [&](int exponent) {
      const auto mantissa = static_cast<double>(static_cast<std::int64_t>(random.next()) >> 10);
      return std::ldexp(mantissa, exponent);
    };
    const double x = number(static_cast<int>(random.next() % 120) - 60);
    const double y = number(static_cast<int>(random.next() % 120) - 60);
    const double near = std::fabs(x - y);
    for (const double bound : {near, std::nextafter(near, 0.0), std::nextafter(near, 1e300)}) {
      const bool kept = keeps_bound(x, y, bound);
      ASSERT_EQ(kept, exactly_within(x, y, bound)) << x << " " << y << " " << bound;
      n_kept += kept ? 1 : 0;
    }
  }
  EXPECT_GT(n_kept, 250000u);
  EXPECT_LT(n_kept, 350000u);
}

TEST_P(DirectProperty, BoundsOfEverySizeOnValuesOfEverySize) {
  Scratch scratch;
  const bool is_double = GetParam() == DType::kF64;
  unsigned round = 0;
  for (int exponent = is_double ? -1000 : -170; exponent < (is_double ? 999 : 140);
       exponent += is_double ? 37 : 6) {
    for (const Pattern pattern : kWildPatterns) {
      for (const Features& features : kFeatures) {
        ++round;
        const double bound = std::ldexp(1 + (round % 16) / 16.0, exponent);
        const auto chunk = make_chunk(GetParam(), {20, 5, 3, 3}, round % 20, 855, bound, features);
        const Bytes values = make_values(GetParam(), pattern, chunk.n, round);
        SCOPED_TRACE(describe(GetParam(), pattern, chunk.n) + ", round " + std::to_string(round));
        expect_bound(chunk, values, decoded_values(chunk, values, scratch));
      }
    }
  }
}

// Values that differ from a decoded one by the bound, give or take a few units in the last
// place.
TEST_P(DirectProperty, ValuesOnTheBound) {
  Scratch scratch;
  Random random(6);
  const std::size_t value_bytes = bits_per_element(GetParam()) / 8;
  for (const double bound : {1.0, 0x1p-20, 1e-4, 0.1, 3e-7, 1.7e3, 6e-8, 1e-39, 0x1.fffffep-30}) {
    for (const double step : {*step_of(bound), 2 * bound, power_of_two_below(*step_of(bound))}) {
      Chunk chunk = make_chunk(GetParam(), {2000}, 0, 2000, bound, {});
      chunk.parameters.step = step;
      Bytes values(chunk.n * value_bytes);
      for (std::uint64_t i = 0; i < chunk.n; ++i) {
        const auto index = static_cast<double>(static_cast<std::int64_t>(random.next()) >>
                                               (34 + random.next() % 30));
        const double edge = index * step + (i % 2 == 0 ? bound : -bound);
        std::byte* const at = values.data() + i * value_bytes;
        put_double(GetParam(), edge, at);
        std::uint64_t word = 0;
        std::memcpy(&word, at, value_bytes);
        word += random.next() % 5 - 2;
        std::memcpy(at, &word, value_bytes);
      }
      expect_bound(chunk, values, decoded_values(chunk, values, scratch));
    }
  }
}

TEST_P(DirectProperty, ChunksFromTheMiddleOfATensorWithRowBounds) {
  Scratch scratch;
  for (const std::uint64_t first : {0u, 1u, 8u, 45u, 449u, 899u}) {
    for (const std::uint64_t n : {1u, 2u, 127u, 128u, 129u, 449u, 900u}) {
      for (const Pattern pattern : {Pattern::kGaussian, Pattern::kSpecials, Pattern::kSparse}) {
        const auto chunk =
            make_chunk(GetParam(), {40, 5, 3, 3}, first, n, 1e-3, {true, true, true});
        const Bytes values = make_values(GetParam(), pattern, n, first + n);
        SCOPED_TRACE(describe(GetParam(), pattern, n) + " from " + std::to_string(first));
        expect_bound(chunk, values, decoded_values(chunk, values, scratch));
      }
    }
  }
}

// Specification, section 4: the maximum error and the sum of squares, to the last bit.
TEST_P(DirectProperty, MeasuredErrors) {
  Scratch scratch;
  for (const std::uint64_t n : {1u, 31u, 32u, 33u, 127u, 128u, 129u, 4099u}) {
    for (const Pattern pattern :
         {Pattern::kGaussian, Pattern::kSpecials, Pattern::kWideRange, Pattern::kZeroGroups}) {
      const auto chunk = make_chunk(GetParam(), {n}, 0, n, 0.01, {});
      const Bytes values = make_values(GetParam(), pattern, n, n);
      ErrorTotals errors;
      const Bytes decoded = decoded_values(chunk, values, scratch, &errors);
      double sums[32] = {};
      double max = 0;
      std::uint64_t n_finite = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        const double x = double_of(GetParam(), values.data() + i * chunk.value_bytes());
        const double y = double_of(GetParam(), decoded.data() + i * chunk.value_bytes());
        const double error = std::isfinite(x) ? std::fabs(x - y) : 0;
        n_finite += std::isfinite(x) ? 1 : 0;
        max = std::max(max, error);
        sums[i % 32] += error * error;
      }
      for (unsigned h = 16; h > 0; h /= 2) {
        for (unsigned j = 0; j < h; ++j) {
          sums[j] += sums[j + h];
        }
      }
      SCOPED_TRACE(describe(GetParam(), pattern, n));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(errors.max_error), std::bit_cast<std::uint64_t>(max));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(errors.sum_of_squares),
                std::bit_cast<std::uint64_t>(sums[0]));
      EXPECT_EQ(errors.n_finite, n_finite);
    }
  }
}

// Holds as long as the step is well above the last place of the values.
TEST_P(DirectProperty, CodingDecodedValuesChangesNothing) {
  Scratch scratch;
  for (const double bound : {0.02, 0.11, 0.7}) {
    const auto chunk = make_chunk(GetParam(), {3000}, 0, 3000, bound, {});
    const Bytes values = make_spread(GetParam(), Spread::kGaussian, chunk.n, 0.8);
    const Bytes decoded = decoded_values(chunk, values, scratch);
    EXPECT_FALSE(decoded == values);
    const Bytes again = decoded_values(chunk, decoded, scratch);
    for (std::uint64_t i = 0; i < chunk.n; ++i) {
      ASSERT_EQ(double_of(GetParam(), decoded.data() + i * chunk.value_bytes()),
                double_of(GetParam(), again.data() + i * chunk.value_bytes()));
    }
  }
}

TEST_P(DirectProperty, RequestsThatDoNotFitAreRefused) {
  Scratch scratch;
  const Chunk good = make_chunk(GetParam(), {4, 10}, 0, 40, 0.1, {});
  const Bytes values = make_values(GetParam(), Pattern::kGaussian, 40);
  const auto encodes = [&](const Chunk& chunk, std::size_t n_bytes) {
    DirectChunk coded;
    Bytes decoded(n_bytes);
    return encode_direct(chunk.info(), chunk.parameters, ParameterPlace::kInline,
                         {chunk.bound, chunk.row_bounds}, ByteView(values).first(n_bytes), scratch,
                         decoded, coded)
        .has_value();
  };
  EXPECT_TRUE(encodes(good, values.size()));
  EXPECT_FALSE(encodes(good, values.size() - good.value_bytes()));
  const auto refuses = [&](auto&& change) {
    Chunk chunk = good;
    change(chunk);
    return !encodes(chunk, values.size());
  };
  EXPECT_TRUE(refuses([](Chunk& c) { c.n = 0; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.first = 1; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.first = std::uint64_t{0} - 1; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.dtype = DType::kI32; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.shape = {std::uint64_t{1} << 62, 4}; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.step = 0; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.step = NAN; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.bound = 0; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.bound = NAN; }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.row_steps.assign(3, 1); }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.row_steps.assign(4, 1); }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.coefficients.assign(1, 1); }));
  EXPECT_TRUE(refuses([](Chunk& c) { c.parameters.field.bands.assign(1, 1); }));
}

INSTANTIATE_TEST_SUITE_P(Floats, DirectProperty,
                         testing::Values(DType::kF64, DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace cfck::codec
