// The spectral codec: decoding gives what the encoder reported, for every request.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/spectral/spectral_coding.hpp"

namespace cfck::spectral {
namespace {

TEST(Spectral, RoundTripsOfAllShapesStatesAndStages) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{5000}, Shape{64, 100}, Shape{1, 9000}, Shape{9000, 1},
        Shape{16, 16, 3, 3}, Shape{8, 3, 5}, Shape{4, 2, 3, 3, 3}, Shape{40, 30, 7, 7},
        Shape{2, 3, 100, 2}, Shape{3, 2000, 3}}) {
    const std::vector<float> values = normal_values(n_values_of(shape), 0.02f);
    for (const unsigned n_states : {1, 4, 8, 64}) {
      for (const EntropyId entropy : {EntropyId::kRans, EntropyId::kZstd}) {
        for (const double step : {0.3, 0.02, 0.003, 1e-5}) {
          LossyRecord record = record_of(shape, step, n_states);
          record.entropy = entropy;
          const Coded coded = code(record, bytes_of(values));
          ASSERT_TRUE(coded.has_plan);
          // An index is at most two levels off in every coefficient; transforms keep sums.
          const double most = 4 * step * step * static_cast<double>(values.size());
          EXPECT_LE(coded.sum_of_squares, most * 1.001) << step << " " << n_states;
        }
      }
    }
  }
}

TEST(Spectral, OtherDtypes) {
  const Shape shape{32, 8, 3, 3};
  const std::vector<float> floats = normal_values(n_values_of(shape), 1);
  std::vector<double> doubles(floats.begin(), floats.end());
  std::vector<std::uint16_t> halves;
  for (const float value : floats) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    halves.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  LossyRecord record = record_of(shape, 0.1);
  record.dtype = DType::kF64;
  EXPECT_LT(code(record, bytes_of(doubles)).sum_of_squares, 0.02 * 2304);
  record.dtype = DType::kBF16;
  EXPECT_LT(code(record, bytes_of(halves)).sum_of_squares, 0.02 * 2304);
  record.dtype = DType::kF16;  // other numbers, but numbers
  EXPECT_TRUE(code(record, bytes_of(halves)).has_plan);
}

// Compared with the ideal of a uniform quantiser at high rate, step^2 / 12 for levels two steps
// apart, the trellis of eight states gains a decibel, and that of 64 a sixth of one more.
TEST(Spectral, TrellisGain) {
  const std::vector<float> values = normal_values(1 << 16, 1);
  LossyRecord record = record_of({256, 256}, 0.05);
  record.chunk_elems = 1 << 16;
  const Coded eight = code(record, bytes_of(values));
  edited_request(record).n_states = 64;
  const Coded sixty_four = code(record, bytes_of(values));
  edited_request(record).n_states = 4;
  const Coded four = code(record, bytes_of(values));
  edited_request(record).n_states = 1;
  edited_request(record).step = 0.1;
  const Coded one = code(record, bytes_of(values));
  const auto decibels = [&](const Coded& coded) {
    const double bits = 8.0 * static_cast<double>(coded.n_bytes()) / 65536;
    return 10 * std::log10(one.sum_of_squares / coded.sum_of_squares) -
           6.02 * (bits - 8.0 * static_cast<double>(one.n_bytes()) / 65536);
  };
  EXPECT_GT(decibels(four), 0.75);
  EXPECT_GT(decibels(eight), 0.9);
  EXPECT_GT(decibels(sixty_four), decibels(eight) + 0.12);
  EXPECT_LT(decibels(sixty_four), 1.54);  // more than there is
}

// Kernels whose values are alike: almost everything is in the first band.
TEST(Spectral, TransformsKernelsWhereThatPays) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(64 * 32 * 9);
  for (std::size_t block = 0; block < 64 * 32; ++block) {
    const float mean = normal(random);
    for (std::size_t position = 0; position < 9; ++position) {
      values[9 * block + position] = mean + 0.1f * normal(random);
    }
  }
  LossyRecord kernels = record_of({64, 32, 3, 3}, 0.05);
  kernels.chunk_elems = values.size() / 2;
  LossyRecord matrix = record_of({64, 288}, 0.05);
  matrix.chunk_elems = kernels.chunk_elems;
  const Coded transformed = code(kernels, bytes_of(values));
  const Coded plain = code(matrix, bytes_of(values));
  EXPECT_LT(static_cast<double>(transformed.n_bytes()),
            0.75 * static_cast<double>(plain.n_bytes()));
  EXPECT_LT(transformed.sum_of_squares / plain.sum_of_squares, 1.1);
}

// Steps by band, row and column: errors grow by the factor by which they are coarser.
TEST(Spectral, StepsOfTheirOwn) {
  const std::size_t n_rows = 64, n_columns = 32, kernel_size = 9;
  const std::vector<float> values = normal_values(n_rows * n_columns * kernel_size, 1);
  LossyRecord record = record_of({n_rows, n_columns, 3, 3}, 0.02);
  record.chunk_elems = 16 * n_columns * kernel_size;
  for (std::size_t row = 0; row < n_rows; ++row) {
    edited_request(record).steps.rows.push_back(row % 2 == 0 ? 0 : 8);
  }
  for (std::size_t column = 0; column < n_columns; ++column) {
    edited_request(record).steps.columns.push_back(column < n_columns / 2 ? -4 : 4);
  }
  for (const bool has_bands : {false, true}) {
    if (has_bands) {
      edited_request(record).steps.bands = {-7, -2, 1, 0, -1, 3, 0, 3, 4};
    }
    const Coded coded = code(record, bytes_of(values));
    double squares[2][2] = {};
    for (std::size_t i = 0; i < values.size(); ++i) {
      float y;
      std::memcpy(&y, coded.decoded.data() + 4 * i, 4);
      const double error = double{y} - double{values[i]};
      squares[i / (n_columns * kernel_size) % 2][i / kernel_size % n_columns / (n_columns / 2)] +=
          error * error;
    }
    EXPECT_NEAR(squares[1][0] / squares[0][0], 16, 2);  // 8 quarters: 4 times the error
    EXPECT_NEAR(squares[0][1] / squares[0][0], 16, 2);
    EXPECT_NEAR(squares[1][1] / squares[0][0], 256, 40);
  }
  edited_request(record).steps.rows.pop_back();
  Scratch scratch;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(bytes_of(values).subspan(first * 4, n * 4));
  };
  EXPECT_FALSE(find_lossy_encoder(CodecId::kSpectral)->plan(record, read, scratch));
}

TEST(Spectral, NumbersThatAreNoneStayBitForBit) {
  std::vector<float> values = normal_values(64 * 8 * 9, 0.02f);
  std::vector<std::size_t> places{0, 5, 17, 1000, values.size() - 1};
  const std::uint32_t patterns[] = {0x7fc00000u, 0xff800000u, 0x7f800000u, 0x7f800001u,
                                    0xffc12345u};
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::memcpy(&values[places[i]], &patterns[i], 4);
  }
  const Coded coded = code(record_of({64, 8, 3, 3}, 0.004), bytes_of(values));
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(std::memcmp(coded.decoded.data() + 4 * places[i], &patterns[i], 4), 0);
  }
  EXPECT_LT(coded.max_error, 0.05);  // their blocks are as good as others
}

TEST(Spectral, AMaximumErrorIsKept) {
  const std::vector<float> values = normal_values(64 * 8 * 9, 0.02f);
  for (const double bound : {0.02, 0.004, 0.001}) {
    LossyRecord record = record_of({64, 8, 3, 3}, 0.004);
    edited_request(record).max_abs_error = bound;
    const Coded coded = code(record, bytes_of(values));
    EXPECT_LE(coded.max_error, bound);
    EXPECT_EQ(coded.max_error > 0, bound > 0.001);  // else all values are exact
  }
}

// Weights far beyond what their bin has symbols for.
TEST(Spectral, OutliersAreEscapes) {
  std::vector<float> values = normal_values(64 * 100, 0.01f);
  values[77] = 50;
  values[4000] = -1e6f;
  for (const unsigned n_states : {1, 4, 8, 64}) {
    const Coded coded = code(record_of({64, 100}, 0.005, n_states), bytes_of(values));
    EXPECT_LT(coded.max_error, 0.1);
    EXPECT_LT(coded.n_bytes(), 3500u);
  }
}

TEST(Spectral, ExtremeValues) {
  std::vector<float> values(2048, 0.0f);
  const auto trial = [&](double step) {
    const Coded coded = code(record_of({32, 64}, step), bytes_of(values));
    return coded.max_error;
  };
  EXPECT_EQ(trial(0.1), 0);  // all zero
  std::fill(values.begin(), values.end(), 3.25f);
  EXPECT_LE(trial(0.1), 0.2);
  values = normal_values(2048, 1e-42f);  // subnormal
  EXPECT_LE(trial(1e-43), 4e-43);
  values = normal_values(2048, 1e37f);
  EXPECT_LE(trial(1e36), 2.1e36);
  EXPECT_LE(trial(1e-30), 1e38);  // steps far too fine: poor, but defined
  EXPECT_LE(trial(1e300), 1e39);  // and far too coarse
}

TEST(Spectral, RefusesWhatCannotBe) {
  const std::vector<float> values = normal_values(2048, 1);
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(bytes_of(values).subspan(first * 4, n * 4));
  };
  Scratch scratch;
  const auto refused = [&](double step, unsigned n_states, double lambda,
                           std::optional<double> max_abs_error) {
    LossyRecord record = record_of({32, 64}, step, n_states);
    edited_request(record).lambda = lambda;
    edited_request(record).max_abs_error = max_abs_error;
    const auto plan = find_lossy_encoder(CodecId::kSpectral)->plan(record, read, scratch);
    return !plan && plan.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(0, 8, 0, {}));
  EXPECT_TRUE(refused(-1, 8, 0, {}));
  EXPECT_TRUE(refused(NAN, 8, 0, {}));
  EXPECT_TRUE(refused(1, 3, 0, {}));
  EXPECT_TRUE(refused(1, 8, -1, {}));
  EXPECT_TRUE(refused(1, 8, 0, 0.0));
}

// Every byte of a chunk changed and every length cut: an error or some values, no crash.
TEST(Spectral, DamagedChunks) {
  const std::vector<float> values = normal_values(16 * 4 * 9, 0.02f);
  const Shape shape{16, 4, 3, 3};
  for (const EntropyId entropy : {EntropyId::kRans, EntropyId::kZstd}) {
    LossyRecord record = record_of(shape, 0.004);
    record.entropy = entropy;
    const Coded coded = code(record, bytes_of(values));
    ChunkInfo info;
    info.dtype = DType::kF32;
    info.entropy = entropy;
    info.n_elems = values.size();
    info.shape = shape;
    Scratch scratch;
    std::vector<std::byte> out(4 * values.size());
    const std::vector<std::byte>& sound = coded.chunks.at(0).payload;
    for (std::size_t n = 0; n < sound.size(); ++n) {
      const std::vector<std::byte> cut(sound.begin(),
                                       sound.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_FALSE(find_decoder(CodecId::kSpectral)->decode(info, cut, scratch, out));
    }
    for (std::size_t i = 0; i < sound.size(); ++i) {
      for (const unsigned flip : {1u, 0x80u, 0xffu}) {
        std::vector<std::byte> damaged = sound;
        damaged[i] ^= static_cast<std::byte>(flip);
        (void)find_decoder(CodecId::kSpectral)->decode(info, damaged, scratch, out);
      }
    }
  }
}

}  // namespace
}  // namespace cfck::spectral
