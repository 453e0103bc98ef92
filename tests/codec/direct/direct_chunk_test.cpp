// Prediction, bin order, masks, hostile payloads, CPU levels of the direct codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "codec/direct/chunk/bin_order.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/chunk/prediction.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

constexpr double kBound = 1e-3;

struct Variant {
  const char* name;
  bool prediction;
  bool field;
  EntropyId entropy = EntropyId::kZstd;
};
constexpr Variant kPlain = {"plain", false, false};
constexpr Variant kPlainRans = {"plain, rans", false, false, EntropyId::kRans};
constexpr Variant kVariants[] = {kPlain,
                                 {"prediction", true, false},
                                 {"field", false, true},
                                 {"both", true, true},
                                 kPlainRans,
                                 {"prediction, rans", true, false, EntropyId::kRans},
                                 {"field, rans", false, true, EntropyId::kRans},
                                 {"both, rans", true, true, EntropyId::kRans}};

DirectParameters make_parameters(const std::vector<std::uint64_t>& shape, const Variant& variant) {
  const DirectGeometry geometry = *direct_geometry(shape);
  DirectParameters parameters;
  parameters.step = *step_of(kBound);
  Random random(3);
  if (variant.prediction) {
    for (std::size_t i = 0; i < n_coefficients(geometry.kernel_size); ++i) {
      parameters.coefficients.push_back(static_cast<std::int16_t>(random.next() % 101) - 50);
    }
  }
  if (variant.field) {
    const auto fill = [&](std::vector<std::int16_t>& vector, std::uint64_t n, int base) {
      for (std::uint64_t i = 0; i < n; ++i) {
        vector.push_back(static_cast<std::int16_t>(base + static_cast<int>(random.next() % 9)));
      }
    };
    fill(parameters.field.bands, geometry.kernel_size, 20);
    fill(parameters.field.rows, geometry.rows, 10);
    fill(parameters.field.columns, geometry.columns, 10);
  }
  return parameters;
}

struct Sample {
  std::vector<std::uint64_t> shape;
  DirectChunkInfo info;
  DirectParameters parameters;
  std::vector<std::byte> values;
  std::vector<std::byte> decoded;
  DirectChunk chunk;
};

// Values first .. first+n of a tensor of the shape.
std::unique_ptr<Sample> make_sample(DType dtype, const std::vector<std::uint64_t>& shape,
                                    const Variant& variant, std::uint64_t first, std::uint64_t n,
                                    std::vector<std::byte> values) {
  auto sample = std::make_unique<Sample>();
  sample->shape = shape;
  sample->parameters = make_parameters(shape, variant);
  sample->info = {dtype, variant.entropy, sample->shape, first, n, nullptr};
  sample->values = std::move(values);
  sample->decoded.resize(sample->values.size());
  Scratch scratch;
  const ParameterPlace place = place_of(sample->parameters, sample->info);
  const auto done = encode_direct(sample->info, sample->parameters, place, {kBound, {}},
                                  sample->values, scratch, sample->decoded, sample->chunk);
  EXPECT_TRUE(done) << done.error().message;
  return sample;
}

void expect_decodes(const Sample& sample, Scratch& scratch) {
  std::vector<std::byte> back(sample.values.size(), std::byte{0xee});
  const auto done = decode_direct(sample.info, sample.chunk.encoded.payload, scratch, back);
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_TRUE(back == sample.decoded);
  const std::size_t value_bytes = bits_per_element(sample.info.dtype) / 8;
  for (std::size_t i = 0; i < back.size(); i += value_bytes) {
    const double x = double_of(sample.info.dtype, sample.values.data() + i);
    const double y = double_of(sample.info.dtype, back.data() + i);
    ASSERT_TRUE(std::memcmp(&sample.values[i], &back[i], value_bytes) == 0 || within(x, y, kBound));
  }
}

TEST(DirectChunk, EveryVariantWithAndWithoutWholeKernels) {
  Scratch scratch;
  for (const Variant& variant : kVariants) {
    for (const std::uint64_t first : {0u, 9u, 5u}) {
      for (const std::uint64_t n : {1u, 4u, 9u, 127u, 900u, 1003u, 4000u}) {
        SCOPED_TRACE(std::string(variant.name) + " " + std::to_string(first) + "+" +
                     std::to_string(n));
        for (const DType dtype : {DType::kF32, DType::kF16}) {
          auto values = make_spread(dtype, Spread::kLaplace, n, 0.02);
          const auto sample = make_sample(dtype, {20, 30, 3, 3}, variant, first, n, values);
          expect_decodes(*sample, scratch);
        }
      }
    }
  }
}

// Entries of 0 bits: 16 bytes that claim 2^25 numbers.
TEST(DirectChunk, AnInlineFieldOfAPartIsRefusedBeforeItIsRead) {
  const std::vector<std::uint64_t> shape = {std::uint64_t{1} << 25, 2};
  std::vector<std::byte> payload = {std::byte{kDirectInline}};
  DirectParameters parameters;
  parameters.step = kBound;
  append_parameters(parameters, payload);
  payload[1] = std::byte{4};  // a field
  payload.resize(payload.size() + 6 + 40);
  const DirectChunkInfo info = {DType::kF32, EntropyId::kRans, shape, 0, 1000, nullptr};
  const auto body_bytes = direct_body_bytes(info, payload);
  ASSERT_FALSE(body_bytes);
  EXPECT_EQ(body_bytes.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(body_bytes.error().message.find("inline scale field"), std::string::npos);
  Scratch scratch;
  std::vector<std::byte> out(4000);
  EXPECT_EQ(decode_direct(info, payload, scratch, out).error().code, ErrorCode::kCorrupt);
}

TEST(DirectChunk, EveryVariantOnEveryPattern) {
  Scratch scratch;
  for (const Variant& variant : kVariants) {
    for (const Pattern pattern : kAllPatterns) {
      SCOPED_TRACE(std::string(variant.name) + " " + pattern_name(pattern));
      const auto sample = make_sample(DType::kF32, {10, 20, 5}, variant, 0, 1000,
                                      make_values(DType::kF32, pattern, 1000));
      expect_decodes(*sample, scratch);
    }
  }
}

TEST(DirectChunk, LowRates) {
  Scratch scratch;
  for (int i = 0; i < 60; ++i) {
    const double scale = kBound * 0.02 * (1 << (i / 4)) * (1 + 0.25 * (i % 4));
    for (const Variant& variant : {kPlain, kPlainRans}) {
      const auto sample = make_sample(DType::kF32, {40, 101}, variant, 0, 4040,
                                      make_spread(DType::kF32, Spread::kLaplace, 4040, scale, 5));
      expect_decodes(*sample, scratch);
    }
  }
}

TEST(DirectChunk, ZerosThatAreScatteredAreHidden) {
  Scratch scratch;
  auto values = make_spread(DType::kF32, Spread::kGaussian, 1 << 16, 0.5);
  Random random(9);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    if (random.next() >> 62 != 0) {
      std::memset(&values[i], 0, 4);
    }
  }
  for (const Variant& variant : {kPlain, kPlainRans}) {
    const auto sample = make_sample(DType::kF32, {256, 256}, variant, 0, 1 << 16, values);
    expect_decodes(*sample, scratch);
    // One bit per value, and the indices of the quarter that is left.
    EXPECT_LT(8 * sample->chunk.encoded.payload.size(), std::size_t{35} << 15);
  }
}

TEST(DirectChunk, ParametersInThePreamble) {
  Scratch scratch;
  for (const Variant& variant : kVariants) {
    auto values = make_spread(DType::kF32, Spread::kGaussian, 5400, 0.02);
    auto sample = make_sample(DType::kF32, {20, 30, 3, 3}, variant, 0, 5400, values);
    std::vector<std::byte> preamble;
    append_parameters(sample->parameters, preamble);
    const auto parameters = parse_parameters(*direct_geometry(sample->shape), preamble);
    ASSERT_TRUE(parameters);
    const std::size_t inline_bytes = sample->chunk.encoded.payload.size();
    ASSERT_TRUE(encode_direct(sample->info, *parameters, ParameterPlace::kPreamble, {kBound, {}},
                              sample->values, scratch, sample->decoded, sample->chunk));
    EXPECT_EQ(sample->chunk.encoded.payload.size() + preamble.size(), inline_bytes);
    std::vector<std::byte> back(values.size());
    EXPECT_FALSE(decode_direct(sample->info, sample->chunk.encoded.payload, scratch, back));
    sample->info.parameters = &*parameters;
    expect_decodes(*sample, scratch);
    for (std::size_t n = 0; n < preamble.size(); ++n) {
      EXPECT_FALSE(parse_parameters(*direct_geometry(sample->shape), ByteView(preamble).first(n)));
    }
    preamble.push_back(std::byte{0});
    EXPECT_FALSE(parse_parameters(*direct_geometry(sample->shape), preamble));
  }
}

// Decodes from memory after which no byte may be read.
bool decodes(const DirectChunkInfo& info, ByteView payload, std::size_t n_bytes, Scratch& scratch) {
  const test::GuardedBytes copy(payload);
  std::vector<std::byte> out(n_bytes);
  (void)direct_body_bytes(info, copy.bytes());
  const auto done = decode_direct(info, copy.bytes(), scratch, out);
  if (!done) {
    EXPECT_FALSE(done.error().message.empty());
    EXPECT_LE(done.error().byte_offset.value_or(0), payload.size());
  }
  return done.has_value();
}

TEST(DirectChunk, DamageIsAnErrorOrSomeValues) {
  Scratch scratch;
  for (const Variant& variant : kVariants) {
    for (const Pattern pattern :
         {Pattern::kGaussian, Pattern::kSpecials, Pattern::kSparse, Pattern::kWideRange}) {
      const auto sample = make_sample(DType::kF32, {6, 10, 3, 3}, variant, 0, 540,
                                      make_values(DType::kF32, pattern, 540));
      std::vector<std::byte> payload = sample->chunk.encoded.payload;
      for (std::size_t n = 0; n < payload.size(); ++n) {
        ASSERT_FALSE(decodes(sample->info, ByteView(payload).first(n), 2160, scratch)) << n;
      }
      for (std::size_t bit = 0; bit < 8 * payload.size(); ++bit) {
        payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        (void)decodes(sample->info, payload, 2160, scratch);
        payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      }
      ASSERT_TRUE(decodes(sample->info, payload, 2160, scratch));
      payload.push_back(std::byte{0});
      ASSERT_FALSE(decodes(sample->info, payload, 2160, scratch));
    }
  }
}

// Chunks with several lane sets, raw bits in the lanes, and all kinds of groups.
TEST(DirectChunk, DamageOfLargeChunks) {
  Scratch scratch;
  Random random(7);
  for (const std::uint64_t n : {7000u, 9000u, 40000u}) {
    for (const double scale : {0.002, 0.05}) {
      auto values = make_spread(DType::kF32, Spread::kLaplace, n, scale);
      std::fill_n(values.begin() + 8000, 4096, std::byte{0});
      const auto sample = make_sample(DType::kF32, {n}, kPlainRans, 0, n, values);
      ASSERT_GE(sample->chunk.encoded.payload[0], std::byte{4});
      std::vector<std::byte> payload = sample->chunk.encoded.payload;
      for (int i = 0; i < 400; ++i) {
        const std::size_t cut = random.next() % payload.size();
        ASSERT_FALSE(decodes(sample->info, ByteView(payload).first(cut), 4 * n, scratch)) << cut;
        const std::size_t bit = random.next() % (8 * payload.size());
        payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        (void)decodes(sample->info, payload, 4 * n, scratch);
        payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      }
      ASSERT_TRUE(decodes(sample->info, payload, 4 * n, scratch));
      expect_decodes(*sample, scratch);
    }
  }
}

TEST(DirectPrediction, RestoresWhatItPredicts) {
  Random random(4);
  const DirectGeometry geometry = *direct_geometry(std::vector<std::uint64_t>{10, 10, 3, 3});
  std::vector<std::int16_t> coefficients(36);
  for (std::int16_t& a : coefficients) {
    a = static_cast<std::int16_t>(random.next());
  }
  std::vector<std::int32_t> indices(900);
  for (std::int32_t& index : indices) {
    index = static_cast<std::int32_t>(random.next() % (2u * kMaxIndex + 1)) - kMaxIndex;
  }
  indices[100] = kExact;
  std::vector<std::int32_t> residuals = indices;
  predict_indices(geometry, coefficients, 0, residuals);
  EXPECT_FALSE(residuals == indices);
  EXPECT_TRUE(restore_indices(geometry, coefficients, 0, residuals));
  EXPECT_TRUE(residuals == indices);
}

// Chunks that see all, some or none of the numbers whose sums do not fit 16 bits.
TEST(DirectBins, AreTheSumsOfTheField) {
  const std::vector<std::uint64_t> shape{5, 7, 3};
  const DirectGeometry geometry = *direct_geometry(shape);
  ScaleField field;
  field.bands = {-20, 30, 90};
  field.rows = {10, 32767, -32768, 0, 8193};
  field.columns = {0, 5, -32768, 32767, 40, -8193, 60};
  for (std::uint64_t first = 0; first < 105; ++first) {
    for (std::uint64_t n = 1; n <= 105 - first; ++n) {
      std::vector<std::uint8_t> bins(n);
      predict_bins(geometry, field, first, n, bins.data());
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t value = first + i;
        const int sum =
            field.bands[value % 3] + field.rows[value / 21] + field.columns[value / 3 % 7];
        ASSERT_EQ(bins[i], std::clamp(sum, 1, 153)) << first << ' ' << n << ' ' << i;
      }
    }
  }
}

// Means of many values may be less than the minimum that they are computed as.
TEST(DirectBins, OfSmallMeansAreTheLeast) {
  EXPECT_EQ(bin_of_mean(1, (1 << 16) + 1), 1U);
  EXPECT_EQ(bin_of_mean(3, 1 << 18), 1U);
  EXPECT_EQ(bin_of_mean(1, 1 << 16), 1U);
  EXPECT_EQ(bin_of_mean(1 << 16, 1 << 16), kBinOfOne);
}

// Rows are much longer than the chunk, where one ends: the numbers of a whole row would take 8
// GiB.
TEST(DirectBins, TakeNoMoreMemoryThanTheChunk) {
  constexpr std::uint64_t kColumns = std::uint64_t{1} << 26;
  const std::vector<std::uint64_t> shape{3, kColumns, 64};
  const DirectGeometry geometry = *direct_geometry(shape);
  ScaleField field;
  field.bands.resize(64);
  field.bands[63] = 7;
  field.rows = {10, 20, 30};
  field.columns.resize(kColumns);
  field.columns.back() = 50;
  std::uint8_t bins[4];
  predict_bins(geometry, field, 64 * kColumns - 2, 4, bins);
  EXPECT_EQ(std::to_array(bins), (std::array<std::uint8_t, 4>{60, 67, 20, 20}));
}

TEST(DirectGeometryOf, Shapes) {
  const auto is = [](std::vector<std::uint64_t> shape, std::uint64_t rows, std::uint64_t columns,
                     std::uint32_t kernel_size) {
    const DirectGeometry g = *direct_geometry(shape);
    return g.rows == rows && g.columns == columns && g.kernel_size == kernel_size;
  };
  EXPECT_TRUE(is({}, 1, 1, 1));
  EXPECT_TRUE(is({0}, 1, 0, 1));
  EXPECT_TRUE(is({7}, 1, 7, 1));
  EXPECT_TRUE(is({7, 5}, 7, 5, 1));
  EXPECT_TRUE(is({7, 5, 3}, 7, 5, 3));
  EXPECT_TRUE(is({7, 5, 3, 3}, 7, 5, 9));
  EXPECT_TRUE(is({7, 5, 8, 9}, 7, 360, 1));
  EXPECT_FALSE(direct_geometry(std::vector<std::uint64_t>{1u << 31, 1u << 31, 2}));
}

}  // namespace
}  // namespace cfck::codec
