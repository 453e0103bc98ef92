// The passes of the direct codec do the same at every CPU level.
#include "tests/codec/direct/direct_levels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/indices/index_kernels.hpp"

namespace cfck::codec {
namespace {

// Values as a level quantises them, and decoded again.
struct Quantised {
  QuantisedTotals totals;
  std::vector<std::int32_t> indices;
  std::vector<std::byte> decoded;
  std::vector<std::byte> back;
};

Quantised quantised(const DirectKernels& level, DType dtype, const std::vector<std::byte>& values,
                    const ValueSteps& steps) {
  const std::size_t n = values.size() * 8 / bits_per_element(dtype);
  Quantised result;
  result.indices.resize(n);
  result.decoded.resize(values.size());
  result.back.resize(values.size());
  result.totals =
      level.quantise(dtype, values.data(), n, steps, result.indices.data(), result.decoded.data());
  std::vector<std::int32_t> indices = result.indices;
  std::replace(indices.begin(), indices.end(), kExact, 7);
  level.dequantise(dtype, indices.data(), n, steps, result.back.data());
  return result;
}

void expect_same_values(DType dtype, const std::vector<std::byte>& values,
                        const ValueSteps& steps) {
  const Quantised first = quantised(*levels()[0], dtype, values, steps);
  const std::size_t value_bytes = values.size() / first.indices.size();
  std::size_t n_zeros = 0;
  double value_squares = 0;
  for (std::size_t i = 0; i < values.size(); i += value_bytes) {
    const double value = double_of(dtype, values.data() + i);
    n_zeros += value == 0 ? 1 : 0;
    value_squares += std::isfinite(value) ? value * value : 0;
  }
  const double sum = first.totals.errors.sum_of_value_squares;
  EXPECT_TRUE(sum == value_squares || std::abs(sum - value_squares) <= 1e-12 * value_squares)
      << sum << " " << value_squares;
  EXPECT_EQ(first.totals.n_zeros, n_zeros);
  for (const DirectKernels* level : levels()) {
    const Quantised other = quantised(*level, dtype, values, steps);
    EXPECT_TRUE(other.indices == first.indices);
    EXPECT_TRUE(other.decoded == first.decoded);
    EXPECT_TRUE(other.back == first.back);
    EXPECT_EQ(other.totals.n_zeros, first.totals.n_zeros);
    EXPECT_EQ(other.totals.errors.n_exact, first.totals.errors.n_exact);
    EXPECT_EQ(other.totals.errors.n_finite, first.totals.errors.n_finite);
    EXPECT_EQ(other.totals.errors.max_error, first.totals.errors.max_error);
    EXPECT_EQ(other.totals.errors.sum_of_squares, first.totals.errors.sum_of_squares);
    EXPECT_EQ(other.totals.errors.sum_of_value_squares, first.totals.errors.sum_of_value_squares);
  }
}

class DirectLevels : public testing::TestWithParam<DType> {};

TEST_P(DirectLevels, QuantiseEveryPattern) {
  for (const Pattern pattern : kAllPatterns) {
    for (const double bound : {1e-300, 1e-45, 1e-20, 1e-4, 0.25, 7e4, 1e30}) {
      SCOPED_TRACE(describe(GetParam(), pattern, 1000));
      ValueSteps steps;
      steps.step = *step_of(bound);
      steps.bound = bound;
      expect_same_values(GetParam(), make_values(GetParam(), pattern, 1000), steps);
    }
  }
}

TEST_P(DirectLevels, QuantiseSpreadsAndSizes) {
  for (const std::size_t n : {1u, 31u, 32u, 33u, 5000u}) {
    for (const Spread spread : {Spread::kGaussian, Spread::kHeavy}) {
      ValueSteps steps;
      steps.step = *step_of(1e-3);
      steps.bound = 1e-3;
      expect_same_values(GetParam(), make_spread(GetParam(), spread, n, 0.05), steps);
    }
  }
}

// Rows shorter and longer than a block, from the middle of one on.
TEST_P(DirectLevels, QuantiseRows) {
  const std::size_t value_bytes = bits_per_element(GetParam()) / 8;
  for (const std::uint64_t row_values : {1u, 5u, 32u, 100u, 999u}) {
    const std::uint64_t n_rows = 3000 / row_values;
    std::vector<std::uint16_t> row_steps;
    std::vector<double> row_bounds;
    for (std::uint64_t row = 0; row < n_rows; ++row) {
      row_bounds.push_back(row % 7 == 3 ? 0 : 1e-3 * static_cast<double>(1 + row % 5));
      row_steps.push_back(*row_step_of(row_bounds.back()));
    }
    for (const std::uint64_t first : {0u, 3u, 70u}) {
      ValueSteps steps;
      steps.row_steps = row_steps.data();
      steps.row_bounds = row_bounds.data();
      steps.n_rows = n_rows;
      steps.row_values = row_values;
      steps.first_value = first;
      auto values = make_spread(GetParam(), Spread::kGaussian, 3000, 0.05);
      values.resize((n_rows * row_values - first) * value_bytes);
      expect_same_values(GetParam(), values, steps);
    }
  }
}

// Streams, raw bits and escapes of indices in groups.
struct Parts {
  std::vector<std::vector<std::uint8_t>> streams;
  std::vector<std::byte> raw;
  std::vector<std::int32_t> escapes;
};

Parts split(const DirectKernels& level, const std::vector<std::int32_t>& indices, std::size_t n,
            const std::vector<GroupCode>& groups) {
  Parts parts;
  parts.streams.assign(kDirectStreams, std::vector<std::uint8_t>(n + 2 * kGroupSize));
  parts.raw.resize(4 * n + 64);
  parts.escapes.resize(n);
  DirectSplit to;
  for (unsigned s = 0; s < kDirectStreams; ++s) {
    to.streams[s] = parts.streams[s].data();
  }
  to.raw = parts.raw.data();
  to.escapes = parts.escapes.data();
  level.split(indices.data(), n, groups.data(), to);
  for (unsigned s = 0; s < kDirectStreams; ++s) {
    parts.streams[s].resize(static_cast<std::size_t>(to.streams[s] - parts.streams[s].data()));
  }
  parts.raw.resize(static_cast<std::size_t>(to.raw - parts.raw.data()));
  parts.escapes.resize(static_cast<std::size_t>(to.escapes - parts.escapes.data()));
  return parts;
}

bool merges_to(const DirectKernels& level, const Parts& parts,
               const std::vector<std::int32_t>& indices, std::size_t n,
               const std::vector<GroupCode>& groups) {
  DirectMerge from;
  for (unsigned s = 0; s < kDirectStreams; ++s) {
    from.streams[s] = parts.streams[s].data();
  }
  from.raw = parts.raw.data();
  from.escapes = parts.escapes.data();
  from.n_escapes = parts.escapes.size();
  std::vector<std::int32_t> back(indices.size(), 99);
  return level.merge(back.data(), n, groups.data(), from) && from.n_escapes == 0 &&
         std::equal(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(n),
                    back.begin());
}

void expect_same_parts(const std::vector<std::int32_t>& indices, std::size_t n,
                       const std::vector<GroupCode>& groups) {
  const Parts first = split(*levels()[0], indices, n, groups);
  for (const DirectKernels* level : levels()) {
    const Parts other = split(*level, indices, n, groups);
    EXPECT_TRUE(other.streams == first.streams);
    EXPECT_TRUE(other.raw == first.raw);
    EXPECT_TRUE(other.escapes == first.escapes);
    EXPECT_TRUE(merges_to(*level, first, indices, n, groups));
  }
}

TEST(DirectLevelsOfCodes, AssignBinsSplitAndMerge) {
  Random random(9);
  for (int octave = -6; octave < 31; ++octave) {
    const double scale = octave < 0 ? 1.0 / (1 << -octave) : static_cast<double>(1u << octave);
    for (const std::size_t n : {1u, 3u, 127u, 129u, 2000u}) {
      SCOPED_TRACE(std::to_string(octave) + ", " + std::to_string(n));
      const auto indices = make_indices(n, scale, random);
      std::vector<GroupCode> groups(indices.size() / kGroupSize);
      levels()[0]->assign_bins(indices.data(), n, groups.data());
      for (const DirectKernels* level : levels()) {
        std::vector<GroupCode> other(groups.size());
        level->assign_bins(indices.data(), n, other.data());
        for (std::size_t g = 0; g < groups.size(); ++g) {
          EXPECT_EQ(other[g].scale_bin, groups[g].scale_bin);
          EXPECT_EQ(other[g].kind, groups[g].kind);
        }
      }
      expect_same_parts(indices, n, groups);
    }
  }
}

TEST(DirectLevelsOfCodes, Prediction) {
  Random random(12);
  for (const unsigned kernel_size : {2u, 3u, 9u, 25u, 64u}) {
    for (const unsigned most : {1u, 300u, 32768u}) {
      std::vector<std::int16_t> coefficients(kernel_size * (kernel_size - 1) / 2);
      for (std::int16_t& a : coefficients) {
        a = static_cast<std::int16_t>(static_cast<int>(random.next() % (2 * most)) -
                                      static_cast<int>(most));
      }
      for (const double scale : {1.0, 1e3, 1e6, 1e9}) {
        SCOPED_TRACE(std::to_string(kernel_size) + ", " + std::to_string(most));
        std::vector<std::int32_t> indices = make_indices(kernel_size * 50, scale, random);
        for (std::int32_t& code : indices) {
          code = code == kExact ? code : std::clamp(code, -kMaxIndex, kMaxIndex);
        }
        indices[5] = kMasked;
        std::vector<std::int32_t> residuals = indices;
        levels()[0]->predict(coefficients.data(), kernel_size, 50, residuals.data());
        for (const DirectKernels* level : levels()) {
          std::vector<std::int32_t> other = indices;
          level->predict(coefficients.data(), kernel_size, 50, other.data());
          EXPECT_TRUE(other == residuals);
          EXPECT_TRUE(level->restore(coefficients.data(), kernel_size, 50, other.data()));
          EXPECT_TRUE(other == indices);
        }
        residuals[3 * kernel_size] = kMaxIndex + 1;  // no prediction makes up for it
        for (const DirectKernels* level : levels()) {
          std::vector<std::int32_t> other = residuals;
          EXPECT_FALSE(level->restore(coefficients.data(), kernel_size, 50, other.data()));
        }
      }
    }
  }
}

TEST(DirectLevelsOfCodes, MagnitudeSums) {
  Random random(13);
  for (const std::size_t n : {1u, 7u, 8u, 1000u}) {
    const auto indices = make_indices(n, 1000, random);
    std::vector<double> weights(n);
    for (double& weight : weights) {
      weight = 1.0 / static_cast<double>(1 + random.next() % 100);
    }
    std::vector<double> sums = weights;
    const IndexKernels& first = index_kernels_of(CpuLevel::kBaseline);
    first.add_magnitudes(indices.data(), n, 0.3, sums.data());
    const double sum = first.weigh_magnitudes(indices.data(), n, weights.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double code = indices[i] == kExact ? 0 : indices[i];
      EXPECT_EQ(sums[i], weights[i] + std::fabs(code) * 0.3);
    }
    for (int level = 0; level <= static_cast<int>(cpu_level()); ++level) {
      const IndexKernels& kernels = index_kernels_of(static_cast<CpuLevel>(level));
      std::vector<double> other = weights;
      kernels.add_magnitudes(indices.data(), n, 0.3, other.data());
      EXPECT_TRUE(other == sums);
      EXPECT_EQ(kernels.weigh_magnitudes(indices.data(), n, weights.data()), sum);
    }
  }
}

// The range covers finite values, whatever bits the others have.
TEST(DirectLevelsOfValues, Ranges) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const std::size_t value_bytes = bits_per_element(dtype) / 8;
    for (const Pattern pattern : kAllPatterns) {
      for (const std::size_t n : {1u, 63u, 64u, 65u, 1000u}) {
        const std::vector<std::byte> values = make_values(dtype, pattern, n);
        double min = HUGE_VAL;
        double max = -HUGE_VAL;
        for (std::size_t i = 0; i < n; ++i) {
          const double value = double_of(dtype, values.data() + i * value_bytes);
          min = std::isfinite(value) ? std::min(min, value) : min;
          max = std::isfinite(value) ? std::max(max, value) : max;
        }
        for (const DirectKernels* level : levels()) {
          double low = HUGE_VAL;
          double high = -HUGE_VAL;
          level->extend_range(dtype, values.data(), n, low, high);
          EXPECT_EQ(low, min) << describe(dtype, pattern, n);
          EXPECT_EQ(high, max) << describe(dtype, pattern, n);
          // A range that was found before is kept.
          low = -HUGE_VAL;
          high = HUGE_VAL;
          level->extend_range(dtype, values.data(), n, low, high);
          EXPECT_EQ(low, -HUGE_VAL);
          EXPECT_EQ(high, HUGE_VAL);
        }
      }
    }
  }
}

// A field may give indices any bin.
TEST(DirectLevelsOfCodes, SplitAndMergeInEveryBin) {
  Random random(10);
  for (unsigned scale_bin = 1; scale_bin <= kMaxDirectBin; ++scale_bin) {
    for (const std::size_t n : {5u, 128u, 500u}) {
      SCOPED_TRACE(scale_bin);
      for (const double scale : {0.3, 5.0, 1e3, 1e6, 1e9}) {
        const auto indices = make_indices(n, scale, random);
        const GroupCode group{static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
        const std::vector<GroupCode> groups(indices.size() / kGroupSize, group);
        expect_same_parts(indices, n, groups);
      }
    }
  }
}

TEST(DirectLevelsOfCodes, InvalidSymbolsAreRefused) {
  Random random(11);
  for (unsigned scale_bin = 1; scale_bin <= kMaxDirectBin; ++scale_bin) {
    const auto indices = make_indices(kGroupSize, 1, random);
    const GroupCode group{static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
    const BinCode code = kBinCodes.of[scale_bin];
    const unsigned last = code.tuple == 4 ? 81 : code.tuple == 2 ? 225 : 125;
    Parts parts = split(*levels()[0], indices, kGroupSize, {group});
    std::vector<std::uint8_t>& stream = parts.streams[code.stream];
    for (const std::size_t at : {std::size_t{0}, stream.size() - 1}) {
      const std::uint8_t before = stream[at];
      for (const unsigned symbol : {last + 1, 255u}) {
        stream[at] = static_cast<std::uint8_t>(symbol);
        for (const DirectKernels* level : levels()) {
          EXPECT_FALSE(merges_to(*level, parts, indices, kGroupSize, {group}));
        }
      }
      stream[at] = before;
    }
    if (!parts.escapes.empty()) {
      parts.escapes.pop_back();
      for (const DirectKernels* level : levels()) {
        EXPECT_FALSE(merges_to(*level, parts, indices, kGroupSize, {group}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, DirectLevels,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16));

}  // namespace
}  // namespace cfck::codec
