// Blocks that are asked for, blocks of rows of matrices, and Morton ranges.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "spectral/layout/parameters.hpp"
#include "spectral/plan/block_choice.hpp"
#include "spectral/plan/place_field_fit.hpp"
#include "spectral/transforms/morton.hpp"
#include "tests/spectral/spectral_coding.hpp"

namespace cfck::spectral {
namespace {

// Every column is a slow wave along axis 0, beside noise.
std::vector<float> waves(std::uint64_t rows, std::uint64_t columns, float noise) {
  std::vector<float> values = normal_values(rows * columns, noise);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<double>(i / columns);
    const auto column = static_cast<double>(i % columns);
    values[i] += static_cast<float>(std::sin(row / (20 + column) + column));
  }
  return values;
}

LossyRecord matrix(std::uint64_t rows, std::uint64_t columns, std::vector<std::uint8_t> block) {
  LossyRecord record = record_of({rows, columns}, 0.05);
  record.chunk_elems = rows * columns;
  edited_request(record).block = std::move(block);
  return record;
}

SpectralParameters parameters_of(const LossyRecord& record, const Coded& coded) {
  if (!coded.preamble.empty()) {
    return parse_spectral_parameters(record.shape, coded.preamble).value();
  }
  VarintReader in(coded.chunks.front().payload);
  EXPECT_EQ(in.byte().value(), 4);
  return read_spectral_parameters(record.shape, in).value();
}

double bits_of(const Coded& coded, std::size_t n) {
  return 8.0 * static_cast<double>(coded.n_bytes()) / static_cast<double>(n);
}

TEST(SpectralBlocks, MatricesOfAlikeRowsAreTransformedAlongThem) {
  const std::vector<float> values = waves(512, 96, 0.02f);
  const LossyRecord record = matrix(512, 96, {});
  const Coded coded = code(record, bytes_of(values));
  const SpectralParameters found = parameters_of(record, coded);
  EXPECT_TRUE(found.transforms);
  EXPECT_EQ(found.sides, (BlockSides{64, 1}));
  const LossyRecord plain = matrix(512, 96, {1});
  const Coded identity = code(plain, bytes_of(values));
  EXPECT_FALSE(parameters_of(plain, identity).transforms);
  EXPECT_LT(bits_of(coded, values.size()) + 1, bits_of(identity, values.size()));
  // Errors are equal, but there are fewer bits.
  EXPECT_LT(coded.sum_of_squares, 1.2 * identity.sum_of_squares);
}

TEST(SpectralBlocks, OthersAreNot) {
  const std::vector<float> noise = normal_values(512 * 96, 0.1f);
  const LossyRecord record = matrix(512, 96, {});
  EXPECT_FALSE(parameters_of(record, code(record, bytes_of(noise))).transforms);
  // One row repeats itself in every column: alike rows, but no fewer bits than by columns.
  std::vector<float> odd = noise;
  odd[5] = std::nanf("");
  odd[96 * 40] = INFINITY;
  EXPECT_FALSE(parameters_of(record, code(record, bytes_of(odd))).transforms);
}

TEST(SpectralBlocks, AreWhatWasAskedFor) {
  struct Case {
    Shape shape;
    std::vector<std::uint8_t> block;
    BlockSides sides;
  };
  const std::vector<Case> cases = {
      {{60, 50}, {8, 8}, {8, 8}},
      {{60, 50}, {64, 4}, {60, 4}},
      {{3, 2000}, {16}, {16}},
      {{20, 5, 9, 9}, {9, 9}, {9, 9}},
      {{20, 5, 9, 9}, {3, 3}, {3, 3}},
      {{16, 12, 3, 3}, {4, 4, 3, 3}, {4, 4, 3, 3}},
      {{5000}, {64}, {64}},
      {{40, 40, 40}, {16, 16, 16}, {16, 16, 16}},
  };
  for (const Case& item : cases) {
    const std::size_t n = n_values_of(item.shape);
    LossyRecord record = record_of(item.shape, 0.02);
    record.chunk_elems = n;
    edited_request(record).block = item.block;
    for (const EncodeLevel level : {EncodeLevel::kFast, EncodeLevel::kDefault}) {
      record.level = level;
      const std::vector<float> values = normal_values(n, 0.1f);
      const Coded coded = code(record, bytes_of(values));
      const SpectralParameters found = parameters_of(record, coded);
      EXPECT_TRUE(found.transforms) << testing::PrintToString(item.block);
      EXPECT_EQ(found.sides, item.sides);
      // An orthonormal transform leaves the quantiser's error: 0.25 to 0.34 squared steps.
      EXPECT_LT(coded.sum_of_squares, 0.4 * 0.02 * 0.02 * static_cast<double>(n));
    }
  }
}

// Kernels whose values are alike.
std::vector<float> flat_kernels(std::size_t n_kernels, std::size_t kernel_size) {
  const std::vector<float> levels = normal_values(n_kernels, 0.1f);
  std::vector<float> values = normal_values(n_kernels * kernel_size, 0.01f, 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += levels[i / kernel_size];
  }
  return values;
}

TEST(SpectralBlocks, OfOneValueTransformNothing) {
  const std::vector<float> values = flat_kernels(32 * 16, 9);
  LossyRecord record = record_of({32, 16, 3, 3}, 0.01);
  record.chunk_elems = values.size();
  EXPECT_TRUE(parameters_of(record, code(record, bytes_of(values))).transforms);
  edited_request(record).block = {1};
  EXPECT_FALSE(parameters_of(record, code(record, bytes_of(values))).transforms);
}

TEST(SpectralBlocks, OfMoreAxesThanTheTensorAreLeftToTheCodec) {
  const std::vector<float> values = flat_kernels(32 * 16, 9);
  LossyRecord record = record_of({32, 16, 3, 3}, 0.01);
  record.chunk_elems = values.size();
  edited_request(record).block = {2, 2, 1, 1, 1};
  const SpectralParameters found = parameters_of(record, code(record, bytes_of(values)));
  EXPECT_TRUE(found.transforms);
  EXPECT_EQ(found.sides, (BlockSides{3, 3}));
}

TEST(SpectralBlocks, ThatChunksCutAreLeftOut) {
  const std::vector<float> values = waves(512, 96, 0.02f);
  LossyRecord record = matrix(512, 96, {64, 1});
  record.chunk_elems = 96 * 50;
  EXPECT_FALSE(parameters_of(record, code(record, bytes_of(values))).transforms);
  record.chunk_elems = 96 * 128;
  const SpectralParameters whole = parameters_of(record, code(record, bytes_of(values)));
  EXPECT_EQ(whole.sides, (BlockSides{64, 1}));
  // The codec's own choice is a shorter one.
  edited_request(record).block.clear();
  record.chunk_elems = 96 * 48;
  const SpectralParameters shorter = parameters_of(record, code(record, bytes_of(values)));
  EXPECT_EQ(shorter.sides, (BlockSides{16, 1}));
}

TEST(SpectralBlocks, ThatCannotBeAreRefused) {
  for (const std::vector<std::uint8_t>& block :
       {std::vector<std::uint8_t>{0}, {65}, {64, 64, 2}, {2, 0}}) {
    const LossyRecord record = matrix(40, 30, block);
    const ReadValues read = [](std::uint64_t, std::uint64_t, std::vector<std::byte>&) {
      return Result<ByteView>(ByteView());
    };
    Scratch scratch;
    const auto decision = find_lossy_encoder(CodecId::kSpectral)->plan(record, read, scratch);
    ASSERT_FALSE(decision);
    EXPECT_EQ(decision.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(SpectralBlocks, StepsOfRowsAndColumnsArePooled) {
  LossyRecord record = matrix(64, 32, {16, 4});
  edited_request(record).steps.rows.assign(64, 0);
  for (std::size_t i = 16; i < 32; ++i) {
    edited_request(record).steps.rows[i] = 8;
  }
  edited_request(record).steps.columns.assign(32, 0);
  edited_request(record).steps.columns[4] = 6;  // mean 1.5
  const Coded coded = code(record, bytes_of(normal_values(64 * 32, 1.0f)));
  const SpectralParameters found = parameters_of(record, coded);
  EXPECT_EQ(found.steps.rows, (std::vector<std::int16_t>{0, 8, 0, 0}));
  EXPECT_EQ(found.steps.columns, (std::vector<std::int16_t>{0, 2, 0, 0, 0, 0, 0, 0}));
}

TEST(SpectralBlocks, LargeOnesAreGroupedByMortonRange) {
  // 1024 bands of a smooth spectrum, and blocks of other scales: too few values for a scale each.
  const std::uint64_t side = 256;
  std::vector<float> values = normal_values(side * side, 0.05f);
  for (std::size_t pass = 0; pass < 3; ++pass) {
    for (std::size_t i = side; i < values.size(); ++i) {
      values[i] = 0.3f * (values[i] + values[i - 1] + values[i - side]);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::exp2(static_cast<float>(i / side / 32 * 3 % 8 + i % side / 32 * 5 % 8) / 2);
  }
  LossyRecord record = matrix(side, side, {32, 32});
  edited_request(record).step = 0.002;
  const SpectralParameters found = parameters_of(record, code(record, bytes_of(values)));
  EXPECT_TRUE(found.has_ranges);
  ASSERT_EQ(found.scales.bands.size(), 1024u);
  for (std::uint32_t band = 1; band < 1024; ++band) {
    if (band_range(band) == band_range(band - 1)) {
      EXPECT_EQ(found.scales.bands[band], found.scales.bands[band - 1]) << band;
    }
  }
}

TEST(SpectralBlocks, RangesAreStoredOnce) {
  SpectralParameters parameters;
  parameters.step = 1;
  parameters.order = CoefficientOrder::kBins;
  parameters.transforms = true;
  parameters.sides = {64, 64};
  parameters.has_ranges = true;
  for (std::uint32_t band = 0; band < 4096; ++band) {
    parameters.scales.bands.push_back(static_cast<std::int16_t>(40 - band_range(band)));
    parameters.steps.bands.push_back(static_cast<std::int16_t>(band_range(band) / 9));
  }
  std::vector<std::byte> bytes;
  append_spectral_parameters(parameters, bytes);
  EXPECT_LT(bytes.size(), 200u);
  const std::vector<std::uint64_t> shape = {256, 256};
  const auto back = parse_spectral_parameters(shape, bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_TRUE(back->has_ranges);
  EXPECT_EQ(back->scales, parameters.scales);
  EXPECT_EQ(back->steps, parameters.steps);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(parse_spectral_parameters(shape, ByteView(bytes).first(n))) << n;
  }
}

TEST(BlockChoice, PoolsByMeansToNearest) {
  using Vector = std::vector<std::int16_t>;
  EXPECT_EQ(pooled({1, 2, 4, 5, -7}, 2), (Vector{2, 5, -7}));
  EXPECT_EQ(pooled({-1, -2, -4, -5, 3, 3}, 2), (Vector{-1, -4, 3}));
  EXPECT_EQ(pooled({-1, 0, 0}, 3), (Vector{0}));
  EXPECT_EQ(pooled({}, 4), Vector());
  EXPECT_EQ(pooled({3, 4}, 1), (Vector{3, 4}));
  Vector bands(19, 7);
  bands[16] = 2;
  bands[17] = -2;
  pool_ranges(bands);
  EXPECT_EQ(bands[15], 7);
  EXPECT_EQ(bands[16], 0);
  EXPECT_EQ(bands[17], 0);
  EXPECT_EQ(bands[18], 7);
}

// Indices whose magnitudes are a field, by the numbers of band, row and column.
std::vector<std::int32_t> codes_of_field(const SpectralGeometry& geometry) {
  std::vector<std::int32_t> indices(geometry.n_values());
  geometry.each(0, indices.size(),
                [&](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
                  const double octaves = 14 + 0.25 * static_cast<double>(band % 7) +
                                         0.5 * static_cast<double>(row % 3) -
                                         0.25 * static_cast<double>(column % 4);
                  indices[i] =
                      static_cast<std::int32_t>(std::exp2(octaves)) * (i % 2 == 0 ? 1 : -1);
                });
  return indices;
}

TEST(PlaceFieldFit, FindsTheFieldThatCodesWereMadeWith) {
  const std::vector<std::uint64_t> shape = {70, 50};
  for (const BlockSides& sides : {BlockSides{8, 4}, {32, 1}, {1, 16}, {5, 50}}) {
    const SpectralGeometry geometry = SpectralGeometry::create(shape, sides).value();
    const QuarterField field = fit_place_field(geometry, codes_of_field(geometry));
    ASSERT_EQ(field.bands.size(), geometry.n_bands());
    ASSERT_EQ(field.rows.size(), geometry.n_rows());
    ASSERT_EQ(field.columns.size(), geometry.n_columns());
    // The scale of each coefficient is right to a quarter-log2 step, except for an offset common to
    // all.
    std::optional<int> first;
    geometry.each(0, geometry.n_values(),
                  [&](std::size_t, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
                    const int made = static_cast<int>(band % 7) + 2 * static_cast<int>(row % 3) -
                                     static_cast<int>(column % 4);
                    const int found =
                        field.bands[band] + field.rows[row] + field.columns[column] - made;
                    first = first.value_or(found);
                    EXPECT_NEAR(found, *first, 1) << band << ' ' << row << ' ' << column;
                  });
  }
}

}  // namespace
}  // namespace cfck::spectral
