// The plan of a record: what it chooses, and that it pays.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codec/direct/codec.hpp"
#include "codec/direct/plan/derived_bounds.hpp"
#include "codec/direct/plan/plan.hpp"
#include "codec/lossless/lossless.hpp"
#include "tests/codec/direct/direct_cases.hpp"

namespace cfck::codec {
namespace {

ReadValues reader_of(const std::vector<std::byte>& values, std::size_t value_bytes) {
  return [&values, value_bytes](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(ByteView(values).subspan(first * value_bytes, n * value_bytes));
  };
}

// Counts bytes of all chunks and the preamble.
std::size_t encoded_bytes(const DirectRecord& record, const DirectPlan& plan,
                          const DirectBounds& bounds, const std::vector<std::byte>& values) {
  Scratch scratch;
  std::vector<std::byte> preamble;
  const bool apart = plan.place == ParameterPlace::kPreamble;
  if (apart) {
    append_parameters(plan.parameters, preamble);
  }
  std::size_t bytes = preamble.size();
  const std::size_t value_bytes = bits_per_element(record.dtype) / 8;
  const std::uint64_t n_values = values.size() / value_bytes;
  for (std::uint64_t first = 0; first < n_values; first += record.chunk_elems) {
    const std::uint64_t n = std::min(record.chunk_elems, n_values - first);
    const DirectChunkInfo info{
        record.dtype, record.entropy, record.shape, first, n, apart ? &plan.parameters : nullptr};
    const ByteView part = ByteView(values).subspan(first * value_bytes, n * value_bytes);
    std::vector<std::byte> decoded(part.size());
    std::vector<std::byte> back(part.size());
    DirectChunk chunk;
    EXPECT_TRUE(
        encode_direct(info, plan.parameters, plan.place, bounds, part, scratch, decoded, chunk));
    EXPECT_TRUE(decode_direct(info, chunk.encoded.payload, scratch, back));
    EXPECT_TRUE(back == decoded);
    bytes += chunk.encoded.payload.size();
  }
  return bytes;
}

DirectPlan plain_plan(const DirectPlan& plan, double bound) {
  DirectPlan plain;
  plain.place = plan.place;
  plain.parameters.step = *step_of(bound);
  return plain;
}

// Kernels of nine values, each like the one before it, rows of different scale.
std::vector<std::byte> smooth_kernels(std::uint64_t n_kernels, std::uint64_t kernels_per_row,
                                      bool by_row) {
  Random random(2);
  std::vector<std::byte> values(n_kernels * 9 * 4);
  for (std::uint64_t k = 0; k < n_kernels; ++k) {
    const double scale = by_row ? 0.01 * (1 << (k / kernels_per_row % 6)) : 0.05;
    double value = 0;
    for (std::uint64_t t = 0; t < 9; ++t) {
      const double news = static_cast<double>(random.gaussian()) * 0x1p-30;
      value = by_row ? news : 0.9 * value + 0.4 * news;
      put_double(DType::kF32, value * scale, &values[(k * 9 + t) * 4]);
    }
  }
  return values;
}

class DirectPlanOf : public testing::TestWithParam<EntropyId> {};

TEST_P(DirectPlanOf, PredictsSmoothKernels) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{32, 32, 3, 3};
  const auto values = smooth_kernels(1024, 32, false);
  const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 18};
  const auto plan = plan_direct(record, {1e-4, {}}, reader_of(values, 4), scratch);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->parameters.coefficients.empty());
  EXPECT_EQ(plan->place, ParameterPlace::kInline);
  EXPECT_FALSE(plan->prefers_lossless);
  // The saving is half a bit or more for each value.
  EXPECT_LT(encoded_bytes(record, *plan, {1e-4, {}}, values) + values.size() / 64,
            encoded_bytes(record, plain_plan(*plan, 1e-4), {1e-4, {}}, values));
}

TEST_P(DirectPlanOf, OrdersByScaleWhereItPays) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{8, 2048, 3, 3};
  auto values = smooth_kernels(8 * 2048, 2048, true);
  // Every other column is eight times as small.
  for (std::size_t i = 0; i < values.size() / 4; ++i) {
    if (i / 9 % 2 == 0) {
      put_double(DType::kF32, double_of(DType::kF32, &values[4 * i]) / 8, &values[4 * i]);
    }
  }
  const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 15};
  const auto plan = plan_direct(record, {1e-4, {}}, reader_of(values, 4), scratch);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->place, ParameterPlace::kPreamble);
  EXPECT_FALSE(plan->parameters.field.empty());
  EXPECT_LT(encoded_bytes(record, *plan, {1e-4, {}}, values) + values.size() / 64,
            encoded_bytes(record, plain_plan(*plan, 1e-4), {1e-4, {}}, values));
}

// Near their own resolution 16-bit types are not made longer than lossless.
TEST_P(DirectPlanOf, SixteenBitTypesAreNeverLongerThanLossless) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{100, 300};
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto values = make_spread(dtype, Spread::kGaussian, 30000, 0.05);
    EncodedChunk lossless;
    ASSERT_TRUE(LosslessEncoder().encode({dtype, GetParam(), ScanId::kStorageOrder, 30000, {}},
                                         values, scratch, lossless));
    std::size_t before = SIZE_MAX;
    for (const double sigmas : {1e-5, 1e-4, 1e-3, 1e-2}) {
      const DirectBounds bounds{0.058 * sigmas, {}};
      const DirectRecord record{dtype, GetParam(), shape, 1u << 18};
      const auto plan = plan_direct(record, bounds, reader_of(values, 2), scratch);
      ASSERT_TRUE(plan);
      const std::size_t bytes = encoded_bytes(record, *plan, bounds, values);
      EXPECT_LE(bytes, lossless.payload.size());
      EXPECT_LE(bytes, before);
      before = bytes;
    }
    EXPECT_LT(before, lossless.payload.size() * 7 / 8);
  }
}

// Counts the values that a plan reads; they are Gaussian, with a scale for each row.
struct CountingReader {
  std::uint64_t row_values;
  bool by_row;
  std::uint64_t n_read = 0;

  Result<ByteView> operator()(std::uint64_t first, std::uint64_t n,
                              std::vector<std::byte>& workspace) {
    n_read += n;
    workspace.resize(n * 4);
    Random random(first + 1);
    for (std::uint64_t i = 0; i < n; ++i) {
      const double scale = by_row ? 1 << ((first + i) / row_values % 8) : 1;
      put_double(DType::kF32, static_cast<double>(random.gaussian()) * 0x1p-34 * scale,
                 &workspace[4 * i]);
    }
    return ByteView(workspace);
  }
};

TEST_P(DirectPlanOf, ReadsABoundedPart) {
  Scratch scratch;
  for (const std::vector<std::uint64_t>& shape :
       std::vector<std::vector<std::uint64_t>>{{4096, 4096},
                                               {1u << 24},
                                               {3, 1u << 22},
                                               {1u << 20, 5},
                                               {1u << 13, 64, 5, 5},
                                               {2, 1u << 19, 3}}) {
    const DirectGeometry geometry = *direct_geometry(shape);
    CountingReader reader{geometry.row_values(), false};
    const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 18};
    const auto plan = plan_direct(record, {1e-4, {}}, std::ref(reader), scratch);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->place, ParameterPlace::kPreamble);
    EXPECT_TRUE(plan->parameters.field.empty());
    EXPECT_LE(reader.n_read, 1u << 16);
    EXPECT_GE(reader.n_read, 1u << 13);
  }
}

// Bounds differ by row, and the sample has only some rows.
TEST_P(DirectPlanOf, StepsOfAllRows) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{1000, 300};
  std::vector<double> bounds;
  for (int row = 0; row < 1000; ++row) {
    bounds.push_back(1e-4 * (1 << (row % 8)));
  }
  CountingReader reader{300, true};
  const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 18};
  const auto plan = plan_direct(record, {0, bounds}, std::ref(reader), scratch);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->parameters.row_steps.size(), 1000u);
  for (int row = 0; row < 1000; ++row) {
    EXPECT_EQ(plan->parameters.row_steps[row], *row_step_of(bounds[row]));
  }
  EXPECT_LT(reader.n_read, 1u << 17);
}

// A linear layer gets a field where it pays, fitted to all of its columns and rows.
TEST_P(DirectPlanOf, FieldOfALinearLayer) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{700, 200};
  const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 16};
  for (const int octaves : {0, 6}) {
    auto values = make_spread(DType::kF32, Spread::kGaussian, 140000, 0.05);
    for (std::size_t i = 0; octaves != 0 && i < 140000; ++i) {
      const double scale = 1.0 / (1 << (i % 200 * 7 % octaves));
      put_double(DType::kF32, double_of(DType::kF32, &values[4 * i]) * scale, &values[4 * i]);
    }
    const auto plan = plan_direct(record, {1e-4, {}}, reader_of(values, 4), scratch);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->parameters.field.empty(), octaves == 0);
    if (octaves != 0) {
      EXPECT_EQ(plan->parameters.field.rows.size(), 700u);
      EXPECT_LT(encoded_bytes(record, *plan, {1e-4, {}}, values) + values.size() / 64,
                encoded_bytes(record, plain_plan(*plan, 1e-4), {1e-4, {}}, values));
    }
  }
}

// Higher levels take more time and fewer bytes; the level fast spends none on models.
TEST_P(DirectPlanOf, Levels) {
  Scratch scratch;
  const std::vector<std::uint64_t> kernels{32, 32, 3, 3};
  const std::vector<std::uint64_t> layer{300, 200};
  auto layer_values = make_spread(DType::kF32, Spread::kGaussian, 60000, 0.05);
  for (std::size_t i = 0; i < 60000; ++i) {
    // Columns that differ too little for the default level.
    const double scale = i % 200 % 4 == 0 ? 0.7 : 1.0;
    put_double(DType::kF32, double_of(DType::kF32, &layer_values[4 * i]) * scale,
               &layer_values[4 * i]);
  }
  for (const auto& [shape, values] :
       {std::pair(kernels, smooth_kernels(1024, 32, false)), std::pair(layer, layer_values)}) {
    std::size_t bytes[3];
    for (const EncodeLevel level :
         {EncodeLevel::kFast, EncodeLevel::kDefault, EncodeLevel::kArchive}) {
      const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 18, level};
      const auto plan = plan_direct(record, {1e-4, {}}, reader_of(values, 4), scratch);
      ASSERT_TRUE(plan);
      if (level == EncodeLevel::kFast) {
        EXPECT_TRUE(plan->parameters.coefficients.empty() && plan->parameters.field.empty());
      }
      bytes[static_cast<int>(level)] = encoded_bytes(record, *plan, {1e-4, {}}, values);
    }
    EXPECT_GE(bytes[0], bytes[1]);
    EXPECT_GE(bytes[1], bytes[2]);
    EXPECT_GT(bytes[0], bytes[2]);
  }
}

TEST_P(DirectPlanOf, PrefersLosslessForAFewValues) {
  Scratch scratch;
  std::vector<std::byte> values(40000);
  for (std::size_t i = 0; i < 10000; ++i) {
    put_double(DType::kF32, i < 5000 ? 0.123456 : -0.7654321, &values[4 * i]);
  }
  const std::vector<std::uint64_t> shape{100, 100};
  const DirectRecord record{DType::kF32, GetParam(), shape, 1u << 18};
  const auto plan = plan_direct(record, {1e-9, {}}, reader_of(values, 4), scratch);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->prefers_lossless);
  for (const EncodeLevel level : {EncodeLevel::kFast, EncodeLevel::kDefault}) {
    DirectRecord forced = record;
    forced.is_forced = true;
    forced.level = level;
    EXPECT_FALSE(plan_direct(forced, {1e-9, {}}, reader_of(values, 4), scratch)->prefers_lossless);
  }
}

// All indices are zero: the states of the lanes would be nearly all of the payload.
TEST(DirectPlanOfStages, NothingToSayIsSaidInTheShorterStage) {
  Scratch scratch;
  const std::vector<std::uint64_t> shape{256, 256};
  const std::vector<std::byte> values = make_spread(DType::kF32, Spread::kGaussian, 65536, 1e-6);
  const DirectBounds bounds{1e-3, {}};
  DirectRecord record{DType::kF32, EntropyId::kRans, shape, 1u << 18};
  const auto plan = plan_direct(record, bounds, reader_of(values, 4), scratch);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->entropy, EntropyId::kZstd);
  const std::size_t with_rans = encoded_bytes(record, *plan, bounds, values);
  record.entropy = plan->entropy;
  EXPECT_LT(encoded_bytes(record, *plan, bounds, values), 64u);
  EXPECT_GT(with_rans, 256u);
  record.entropy = EntropyId::kRans;
  record.level = EncodeLevel::kFast;
  EXPECT_EQ(plan_direct(record, bounds, reader_of(values, 4), scratch)->entropy, EntropyId::kRans);
}

TEST(DirectPlanOfRows, MoreRowsThanAPreambleHolds) {
  LossyRecord record;
  record.shape = {(std::uint64_t{1} << 30) + 1, 2};
  record.chunk_elems = 1u << 18;
  record.bound = {BoundKind::kRel, true, 1e-3};
  Scratch scratch;
  bool has_read = false;
  const auto plan = DirectEncoder().plan(
      record,
      [&](std::uint64_t, std::uint64_t, std::vector<std::byte>&) -> Result<ByteView> {
        has_read = true;
        return Error{ErrorCode::kIo, "read", {}, {}};
      },
      scratch);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(has_read);
}

// A factor below the normal numbers of a deviation far above 1.
TEST(DerivedBoundsOf, NothingUnderflowsOnTheWay) {
  std::vector<std::byte> values(8 * 4096);
  for (std::size_t i = 0; i < 4096; ++i) {
    put_double(DType::kF64, i % 2 == 0 ? 0x1p500 : -0x1p500, &values[8 * i]);
  }
  LossyRecord record;
  record.dtype = DType::kF64;
  record.shape = {64, 64};
  record.chunk_elems = 1000;
  record.bound = {BoundKind::kSigma, false, 0x1.cp-1034};
  for (const bool per_row : {false, true}) {
    record.bound.per_row = per_row;
    const auto bounds = derive_bounds(record, reader_of(values, 8));
    ASSERT_TRUE(bounds);
    EXPECT_EQ(bounds->rows.size(), per_row ? 64u : 0u);
    const double bound = per_row ? bounds->rows.back() : bounds->bound;
    EXPECT_LE(bound, 0x1.cp-534);
    EXPECT_GT(bound, 0x1.bfp-534);
  }
}

TEST_P(DirectPlanOf, BadRequestsAreErrors) {
  Scratch scratch;
  const auto values = make_spread(DType::kF32, Spread::kGaussian, 100, 0.05);
  const std::vector<std::uint64_t> shape{10, 10};
  const std::vector<std::uint64_t> empty{10, 0};
  const std::vector<double> rows(9, 1e-3);
  const auto fails = [&](const std::vector<std::uint64_t>& of, const DirectBounds& bounds) {
    const DirectRecord record{DType::kF32, GetParam(), of, 1u << 18};
    return !plan_direct(record, bounds, reader_of(values, 4), scratch);
  };
  EXPECT_TRUE(fails(shape, {0, {}}));
  EXPECT_TRUE(fails(shape, {-1, {}}));
  EXPECT_TRUE(fails(shape, {0, rows}));
  EXPECT_TRUE(fails(empty, {1e-3, {}}));
  EXPECT_FALSE(fails(shape, {1e-3, {}}));
}

INSTANTIATE_TEST_SUITE_P(Stages, DirectPlanOf, testing::ValuesIn(kBothStages),
                         [](const auto& test) { return std::string(entropy_name(test.param)); });

}  // namespace
}  // namespace cfck::codec
