// Descriptions of spectral records for programs, against plain computations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codec/lossy.hpp"
#include "spectral/chunk/spectral.hpp"
#include "spectral/description.hpp"
#include "spectral/transforms/morton.hpp"
#include "tests/spectral/edited_request.hpp"
#include "tests/spectral/transforms/plain_dct.hpp"

namespace cfck::spectral {
namespace {

constexpr std::uint64_t kFrameBytes = 12;

// A tensor as an encoder leaves it.
struct Coded {
  LossyRecord record;
  std::vector<float> values;
  std::vector<float> decoded;
  std::vector<std::byte> preamble;
  std::vector<std::vector<std::byte>> payloads;

  std::uint64_t n_elems_of(std::size_t chunk) const {
    return std::min<std::uint64_t>(record.chunk_elems, values.size() - first_of(chunk));
  }
  std::uint64_t first_of(std::size_t chunk) const { return chunk * record.chunk_elems; }
  ChunkInfo info_of(std::size_t chunk) const {
    return {record.dtype, record.entropy, ScanId::kStorageOrder, n_elems_of(chunk),
            preamble,     record.shape,   first_of(chunk)};
  }
  std::uint64_t stored_bytes() const {
    std::uint64_t n_bytes = preamble.empty() ? 0 : preamble.size() + kFrameBytes;
    for (const auto& payload : payloads) n_bytes += payload.size() + kFrameBytes;
    return n_bytes;
  }
};

LossyRecord request(const Shape& shape, std::uint64_t chunk_elems, double step) {
  LossyRecord record;
  record.shape = shape;
  record.chunk_elems = chunk_elems;
  record.entropy = EntropyId::kRans;
  record.is_forced = true;
  edited_request(record).step = step;
  return record;
}

std::vector<float> normal_values(std::size_t n, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

template <class T>
ByteView part(const std::vector<T>& values, std::uint64_t first, std::uint64_t n) {
  return std::as_bytes(std::span(values).subspan(first, n));
}

Coded code(const LossyRecord& record, const std::vector<float>& values) {
  Coded coded{record, values, std::vector<float>(values.size()), {}, {}};
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(part(values, first, n));
  };
  Scratch scratch;
  auto decision = find_lossy_encoder(CodecId::kSpectral)->plan(record, read, scratch);
  EXPECT_TRUE(decision && decision->plan != nullptr);
  const LossyPlan& plan = *decision->plan;
  coded.record.entropy = plan.entropy();
  coded.preamble.assign(plan.preamble().begin(), plan.preamble().end());
  for (std::size_t i = 0; coded.first_of(i) < values.size(); ++i) {
    const auto decoded = std::span(coded.decoded).subspan(coded.first_of(i), coded.n_elems_of(i));
    EncodedChunk chunk;
    ErrorTotals errors;
    EXPECT_TRUE(plan.encode(coded.first_of(i), part(values, coded.first_of(i), decoded.size()),
                            scratch, std::as_writable_bytes(decoded), chunk, errors));
    coded.payloads.push_back(std::move(chunk.payload));
  }
  return coded;
}

SpectralDescription describe(const Coded& coded, bool compares = true) {
  SpectralDescription description;
  Scratch scratch;
  for (std::size_t i = 0; i < coded.payloads.size(); ++i) {
    const auto added = description.add_chunk(
        coded.info_of(i), coded.payloads[i], coded.payloads[i].size() + kFrameBytes,
        compares ? part(coded.values, coded.first_of(i), coded.n_elems_of(i)) : ByteView(),
        scratch);
    EXPECT_TRUE(added) << added.error().message;
  }
  description.add_shared_bytes(coded.preamble.empty() ? 0 : coded.preamble.size() + kFrameBytes);
  return description;
}

double sum_of_bits(const SpectralDescription& description) {
  double bits = description.lossless().bits;
  for (const SpectralCoding& coding : description.codings()) {
    for (const BandTotals& band : coding.bands) bits += band.bits;
  }
  return bits;
}

double sum_of_coefficient_bits(const SpectralDescription& description) {
  double bits = 0;
  for (const SpectralCoding& coding : description.codings()) {
    for (const BandTotals& band : coding.bands) bits += band.coefficient_bits;
  }
  return bits;
}

TEST(SpectralDescription, BandsOfKernelsInChunks) {
  const Shape shape{40, 16, 3, 3};
  LossyRecord record = request(shape, 16 * 144, 0.05);
  edited_request(record).steps.bands = {-3, 0, 1, 2, 3, 4, 0, -1, 8};
  const Coded coded = code(record, normal_values(40 * 144, 0.5f));
  ASSERT_EQ(coded.payloads.size(), 3u);
  const SpectralDescription description = describe(coded);
  ASSERT_EQ(description.codings().size(), 1u);
  const SpectralCoding& coding = description.codings()[0];
  EXPECT_TRUE(coding.parameters.transforms);
  EXPECT_EQ(coding.parameters.sides, (BlockSides{3, 3}));
  EXPECT_EQ(coding.parameters.n_states, 8u);
  EXPECT_EQ(coding.parameters.step, 0.05);
  EXPECT_EQ(coding.parameters.steps.bands, edited_request(record).steps.bands);
  EXPECT_EQ(coding.is_inline, coded.preamble.empty());
  EXPECT_EQ(coding.n_chunks, 3u);
  EXPECT_EQ(coding.n_values, 40u * 144);
  EXPECT_EQ(description.lossless().n_chunks, 0u);
  EXPECT_NEAR(sum_of_bits(description), 8.0 * static_cast<double>(coded.stored_bytes()), 1e-6);

  // Computes the sums plainly.
  std::vector<double> values(coded.values.begin(), coded.values.end());
  std::vector<double> errors(values.size());
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = values[i] - coded.decoded[i];
  const Sides sides{1, 1, 3, 3};
  plain_dct(false, values, shape, sides);
  plain_dct(false, errors, shape, sides);
  const std::vector<std::uint32_t> bands = band_numbers(sides);
  ASSERT_EQ(coding.bands.size(), 9u);
  std::vector<double> squares(9), squared_errors(9);
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares[bands[i % 9]] += values[i] * values[i];
    squared_errors[bands[i % 9]] += errors[i] * errors[i];
  }
  for (std::size_t b = 0; b < 9; ++b) {
    const BandTotals& band = coding.bands[b];
    const double step = std::exp2(edited_request(record).steps.bands[b] / 4.0);
    EXPECT_EQ(band.n_values, 640u);
    EXPECT_NEAR(band.min_step, step, 1e-12);
    EXPECT_NEAR(band.max_step, step, 1e-12);
    EXPECT_NEAR(band.squared_steps, 640 * step * step, 1e-9);
    EXPECT_NEAR(band.squared_values * 0.0025 / squares[b], 1, 1e-9) << b;
    EXPECT_NEAR(band.squared_errors * 0.0025 / squared_errors[b], 1, 1e-9) << b;
    EXPECT_LT(band.squared_errors, band.squared_steps);
  }
  // Twice the step saves a bit.
  EXPECT_NEAR((coding.bands[1].bits - coding.bands[5].bits) / 640, 1, 0.2);
  EXPECT_NEAR((coding.bands[1].bits - coding.bands[8].bits) / 640, 2, 0.3);
}

TEST(SpectralDescription, StepsOfColumnsWithoutTransform) {
  LossyRecord record = request({64, 48}, 64 * 48, 0.02);
  for (int i = 0; i < 48; ++i) {
    edited_request(record).steps.columns.push_back(static_cast<std::int16_t>(i % 12 - 6));
  }
  edited_request(record).n_states = 4;
  const Coded coded = code(record, normal_values(64 * 48, 0.3f, 2));
  const SpectralDescription description = describe(coded);
  ASSERT_EQ(description.codings().size(), 1u);
  const SpectralCoding& coding = description.codings()[0];
  EXPECT_FALSE(coding.parameters.transforms);
  EXPECT_EQ(coding.parameters.n_states, 4u);
  EXPECT_EQ(coding.parameters.steps.columns, edited_request(record).steps.columns);
  double squared_steps = 0;
  for (const std::int16_t quarters : edited_request(record).steps.columns) {
    squared_steps += 64 * std::exp2(quarters / 2.0);
  }
  double squared_errors = 0;
  for (std::size_t i = 0; i < coded.values.size(); ++i) {
    const double error = double{coded.values[i]} - coded.decoded[i];
    squared_errors += error * error;
  }
  ASSERT_EQ(coding.bands.size(), 1u);
  const BandTotals& band = coding.bands[0];
  EXPECT_NEAR(band.squared_steps, squared_steps, 1e-9);
  EXPECT_NEAR(band.min_step, std::exp2(-1.5), 1e-12);
  EXPECT_NEAR(band.max_step, std::exp2(1.25), 1e-12);
  EXPECT_NEAR(band.squared_errors * 0.0004 / squared_errors, 1, 1e-9);
  EXPECT_NEAR(band.bits, 8.0 * static_cast<double>(coded.stored_bytes()), 1e-6);
  // Without the original nothing is compared.
  const SpectralDescription blind = describe(coded, false);
  EXPECT_EQ(blind.codings()[0].bands[0].bits, band.bits);
  EXPECT_EQ(blind.codings()[0].bands[0].squared_errors, 0);
  EXPECT_EQ(blind.codings()[0].bands[0].squared_values, 0);
}

TEST(SpectralDescription, AlmostAllBitsBelongToCoefficients) {
  const std::vector<float> values = normal_values(256 * 256, 1, 3);
  for (const EntropyId entropy : {EntropyId::kRans, EntropyId::kZstd}) {
    for (const unsigned n_states : {1u, 4u, 8u, 64u}) {
      for (const double step : {1.0, 0.1, 0.001}) {
        LossyRecord record = request({256, 256}, 65536, step);
        record.entropy = entropy;
        edited_request(record).n_states = n_states;
        const Coded coded = code(record, values);
        const SpectralDescription description = describe(coded, false);
        const double stored = 8.0 * static_cast<double>(coded.stored_bytes());
        EXPECT_NEAR(sum_of_bits(description), stored, 1e-5);
        const double share = sum_of_coefficient_bits(description) / stored;
        // Codes of whole bits waste some where there are few bits.
        EXPECT_GT(share, entropy == EntropyId::kZstd && step == 1 ? 0.8 : 0.96)
            << n_states << " " << step;
        EXPECT_LT(share, 1) << n_states << " " << step;
      }
    }
  }
}

TEST(SpectralDescription, EscapesCountWhereTheyAre) {
  std::vector<float> values = normal_values(2048, 0.01f, 4);
  values[700] = 3e6f;
  values[701] = std::numeric_limits<float>::quiet_NaN();
  values[702] = std::numeric_limits<float>::infinity();
  for (const EntropyId entropy : {EntropyId::kRans, EntropyId::kZstd}) {
    LossyRecord record = request({32, 64}, 2048, 0.01);
    record.entropy = entropy;
    const Coded coded = code(record, values);
    ASSERT_EQ(coded.payloads.size(), 1u);
    const SpectralDescription description = describe(coded);
    const SpectralCoding& coding = description.codings().at(0);
    EXPECT_TRUE(coding.is_inline);
    EXPECT_EQ(coding.n_escapes, 1u);
    EXPECT_EQ(coding.n_exact, 2u);
    EXPECT_TRUE(std::isfinite(coding.bands[0].squared_errors));
    const SpectralChunkInfo info{DType::kF32, coded.record.entropy, coded.record.shape, 0, 2048,
                                 nullptr};
    std::vector<double> bits(2048);
    Scratch scratch;
    ASSERT_TRUE(measure_spectral_bits(info, coded.payloads[0], scratch, bits));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      // The varint of the escape has 30 bits.
      EXPECT_EQ(bits[i] >= 32, i == 700) << i << " " << bits[i];
    }
  }
}

TEST(SpectralDescription, ChunksWithoutLossAndZeros) {
  std::vector<float> values = normal_values(3 * 4096, 0.5f, 5);
  std::fill(values.begin() + 4096, values.begin() + 8192, 0.25f);
  const Coded coded = code(request({12, 1024}, 4096, 0.1), values);
  const SpectralDescription description = describe(coded);
  EXPECT_EQ(description.lossless().n_chunks, 1u);
  EXPECT_EQ(description.lossless().n_values, 4096u);
  EXPECT_GT(description.lossless().bits, 0);
  ASSERT_EQ(description.codings().size(), 1u);
  EXPECT_EQ(description.codings()[0].n_chunks, 2u);
  EXPECT_EQ(description.codings()[0].n_values, 8192u);
  EXPECT_NEAR(sum_of_bits(description), 8.0 * static_cast<double>(coded.stored_bytes()), 1e-6);

  // Coefficients that all become zeros have no bits of their own.
  const Coded zeros = code(request({64, 64}, 4096, 1000), normal_values(4096, 1, 6));
  const SpectralDescription of_zeros = describe(zeros);
  ASSERT_EQ(of_zeros.codings().size(), 1u);
  EXPECT_EQ(of_zeros.codings()[0].bands[0].coefficient_bits, 0);
  EXPECT_EQ(of_zeros.codings()[0].bands[0].squared_errors,
            of_zeros.codings()[0].bands[0].squared_values);
  EXPECT_NEAR(sum_of_bits(of_zeros), 8.0 * static_cast<double>(zeros.stored_bytes()), 1e-6);
}

TEST(SpectralDescription, NothingFromNothing) {
  SpectralDescription description;
  description.add_shared_bytes(100);
  EXPECT_TRUE(description.codings().empty());
  EXPECT_EQ(sum_of_bits(description), 0);
}

// A tensor of chunks with parameters of their own.
TEST(SpectralDescription, DifferentParametersAreKeptApart) {
  const std::vector<float> values = normal_values(512, 1, 7);
  const Shape shape{SpectralDescription::kMaxCodings + 2, 512};
  SpectralDescription description;
  Scratch scratch;
  const auto add = [&](std::uint64_t chunk, double step) {
    SpectralParameters parameters;
    parameters.step = step;
    const SpectralChunkInfo info{DType::kF32, EntropyId::kRans, shape, 512 * chunk, 512, nullptr};
    std::vector<float> decoded(512);
    EncodedChunk encoded;
    ErrorTotals errors;
    EXPECT_TRUE(encode_spectral(info, parameters, {true}, part(values, 0, 512), scratch,
                                std::as_writable_bytes(std::span(decoded)), encoded, errors));
    return description.add_chunk(
        {DType::kF32, EntropyId::kRans, ScanId::kStorageOrder, 512, {}, shape, 512 * chunk},
        encoded.payload, encoded.payload.size(), {}, scratch);
  };
  for (std::uint64_t i = 0; i < SpectralDescription::kMaxCodings; ++i) {
    ASSERT_TRUE(add(i, 0.1 + 0.01 * static_cast<double>(i)));
  }
  EXPECT_EQ(description.codings().size(), SpectralDescription::kMaxCodings);
  EXPECT_TRUE(add(SpectralDescription::kMaxCodings, 0.1));
  EXPECT_EQ(description.codings()[0].n_chunks, 2u);
  EXPECT_EQ(description.codings()[1].n_chunks, 1u);
  const auto failed = add(SpectralDescription::kMaxCodings + 1, 3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kLimitExceeded);
}

TEST(SpectralDescription, UnsoundBytesGiveTheErrorsOfTheDecoder) {
  LossyRecord record = request({40, 16, 3, 3}, 16 * 144, 0.05);
  const Coded sound = code(record, normal_values(40 * 144, 0.5f));
  ASSERT_FALSE(sound.preamble.empty());
  const auto fails = [](const Coded& coded, std::size_t n_bytes) {
    Scratch scratch;
    const ByteView payload = ByteView(coded.payloads[0]).first(n_bytes);
    SpectralDescription description;
    const auto described =
        description.add_chunk(coded.info_of(0), payload, payload.size(), {}, scratch);
    std::vector<std::byte> out(4 * coded.n_elems_of(0));
    const auto decoded =
        find_decoder(CodecId::kSpectral)->decode(coded.info_of(0), payload, scratch, out);
    EXPECT_EQ(static_cast<bool>(described), static_cast<bool>(decoded));
    if (!described) {
      EXPECT_EQ(described.error().message, decoded.error().message);
      EXPECT_EQ(described.error().byte_offset, decoded.error().byte_offset);
      EXPECT_TRUE(description.codings().empty());
    }
    return !described;
  };
  EXPECT_FALSE(fails(sound, sound.payloads[0].size()));
  for (std::size_t n = 0; n < sound.payloads[0].size(); n += 7) EXPECT_TRUE(fails(sound, n)) << n;
  std::size_t n_failed = 0;
  for (std::size_t i = 0; i < sound.preamble.size(); ++i) {
    for (const unsigned bit : {0u, 3u, 7u}) {
      Coded broken = sound;
      broken.preamble[i] ^= static_cast<std::byte>(1u << bit);
      n_failed += fails(broken, broken.payloads[0].size()) ? 1 : 0;
    }
  }
  EXPECT_GT(n_failed, 3u);
}

}  // namespace
}  // namespace cfck::spectral
