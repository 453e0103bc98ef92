// The spectral codec with error compensation: decoding gives what the encoder reported, and a
// layer's outputs are closer than without.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/cpu/level.hpp"
#include "spectral/codec.hpp"
#include "spectral/feedback/second_moments.hpp"
#include "spectral/plan/plan.hpp"
#include "tests/spectral/spectral_coding.hpp"

namespace cfck::spectral {
namespace {

// Second moments of inputs each of which resembles the ones before it.
std::vector<float> correlated(std::size_t n, double correlation = 0.97) {
  std::vector<float> moments(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double distance = std::abs(static_cast<double>(i) - static_cast<double>(j));
      moments[i * n + j] = static_cast<float>(std::pow(correlation, distance));
    }
  }
  return moments;
}

std::shared_ptr<const SecondMoments> moments_of(const std::vector<float>& values) {
  const auto n = static_cast<std::size_t>(std::sqrt(static_cast<double>(values.size())) + 0.5);
  return std::make_shared<const SecondMoments>(values, n);
}

LossyRecord fed_record(const Shape& shape, double step, unsigned n_states = 8) {
  LossyRecord record = record_of(shape, step, n_states);
  record.chunk_elems = 1 << 18;
  edited_request(record).moments = moments_of(correlated(n_values_of(shape) / shape[0]));
  return record;
}

bool is_fed(const LossyRecord& record, ByteView values) {
  const std::size_t width = bits_per_element(record.dtype) / 8;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(values.subspan(first * width, n * width));
  };
  Scratch scratch;
  const auto plan = plan_spectral(record, read, scratch);
  EXPECT_TRUE(plan);
  return plan && plan->parameters.order == CoefficientOrder::kRowBlocks;
}

std::vector<float> floats_of(const Coded& coded) {
  std::vector<float> floats(coded.decoded.size() / sizeof(float));
  std::memcpy(floats.data(), coded.decoded.data(), coded.decoded.size());
  return floats;
}

// Returns the effect of errors on the outputs: e^T H e summed over rows.
double output_error(const std::vector<float>& before, const std::vector<float>& after,
                    const std::vector<float>& moments, std::size_t n) {
  double sum = 0;
  for (std::size_t first = 0; first < before.size(); first += n) {
    std::vector<double> errors(n);
    for (std::size_t i = 0; i < n; ++i) {
      errors[i] = double{after[first + i]} - double{before[first + i]};
    }
    for (std::size_t i = 0; i < n; ++i) {
      double inner = 0;
      for (std::size_t j = 0; j < n; ++j) {
        inner += double{moments[i * n + j]} * errors[j];
      }
      sum += errors[i] * inner;
    }
  }
  return sum;
}

TEST(SpectralFeedback, RoundTripsOfAllShapesStatesAndStages) {
  for (const Shape& shape :
       {Shape{64, 100}, Shape{33, 40}, Shape{1, 300}, Shape{170, 1}, Shape{40, 8, 3, 3},
        Shape{5, 3, 2, 3}, Shape{50, 4, 5}, Shape{31, 2, 2, 2, 2}, Shape{300, 260}}) {
    const std::vector<float> values = normal_values(n_values_of(shape), 0.02f);
    const std::size_t n = values.size() / shape[0];
    for (const unsigned n_states : {1, 4, 8, 64}) {
      for (const double step : {0.3, 0.02, 0.003, 1e-5, 1e-9}) {
        LossyRecord record = fed_record(shape, step, n_states);
        record.entropy = n_states % 3 == 1 ? EntropyId::kRans : EntropyId::kZstd;
        ASSERT_TRUE(is_fed(record, bytes_of(values)));
        for (const std::uint64_t rows : {shape[0], shape[0] / 3 + 1}) {
          record.chunk_elems = rows * n;
          const Coded coded = code(record, bytes_of(values));
          ASSERT_TRUE(coded.has_plan);
          EXPECT_EQ(coded.chunks.size(), (shape[0] + rows - 1) / rows);
          const double error = output_error(values, floats_of(coded), correlated(n), n);
          // Each column is at most two levels off its target, by steps for their weights.
          EXPECT_LE(error, 16 * step * step * static_cast<double>(values.size()) * 1.01)
              << step << " " << n_states;
        }
      }
    }
  }
}

// Converts to 16 bits: the sign, the exponent and mantissa of a float within range.
std::uint16_t half_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t exponent = bits >> 23 & 0xff;
  const std::uint32_t rest = exponent <= 112 ? 0 : (exponent - 112) << 10 | (bits & 0x7fffff) >> 13;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | rest);
}

TEST(SpectralFeedback, OtherDtypes) {
  const Shape shape{48, 8, 3, 3};
  const std::vector<float> floats = normal_values(n_values_of(shape), 1);
  const std::vector<double> doubles(floats.begin(), floats.end());
  std::vector<std::uint16_t> upper;
  std::vector<std::uint16_t> halves;
  for (const float value : floats) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    upper.push_back(static_cast<std::uint16_t>(bits >> 16));
    halves.push_back(half_of(value));
  }
  const double as_floats = code(fed_record(shape, 0.1), bytes_of(floats)).sum_of_squares;
  EXPECT_GT(as_floats, 0);
  LossyRecord record = fed_record(shape, 0.1);
  for (const auto& [dtype, bytes] :
       {std::pair(DType::kF64, bytes_of(doubles)), std::pair(DType::kBF16, bytes_of(upper)),
        std::pair(DType::kF16, bytes_of(halves))}) {
    record.dtype = dtype;
    ASSERT_TRUE(is_fed(record, bytes));
    EXPECT_NEAR(code(record, bytes).sum_of_squares / as_floats, 1, 0.1);
  }
}

// Compares with the smallest step without feedback that takes no fewer bytes.
double ratio_of_errors(const Shape& shape, double step, const std::vector<float>& moments) {
  const std::size_t n = n_values_of(shape) / shape[0];
  const std::vector<float> values = normal_values(n_values_of(shape), 1);
  LossyRecord record = fed_record(shape, step);
  edited_request(record).moments = moments_of(moments);
  const Coded fed = code(record, bytes_of(values));
  edited_request(record).moments.reset();
  double low = step / 16;
  double high = step * 16;
  for (int i = 0; i < 12; ++i) {
    edited_request(record).step = std::sqrt(low * high);
    (code(record, bytes_of(values)).n_bytes() >= fed.n_bytes() ? low : high) =
        edited_request(record).step;
  }
  edited_request(record).step = low;
  const Coded plain = code(record, bytes_of(values));
  EXPECT_GE(plain.n_bytes(), fed.n_bytes());
  return output_error(values, floats_of(fed), moments, n) /
         output_error(values, floats_of(plain), moments, n);
}

TEST(SpectralFeedback, OutputsAreNearerAtTheSameSize) {
  for (const double step : {0.6, 0.1}) {
    EXPECT_LT(ratio_of_errors({128, 128}, step, correlated(128)), 0.4) << step;
    EXPECT_LT(ratio_of_errors({100, 16, 3, 3}, step, correlated(144)), 0.4) << step;
    EXPECT_LT(ratio_of_errors({20, 200}, step, correlated(200)), 0.5) << step;
  }
  std::vector<float> alike(64 * 64, 1.0f);  // one input, many times over
  EXPECT_LT(ratio_of_errors({64, 64}, 0.3, alike), 0.1);
  std::vector<float> white(64 * 64);  // nothing to gain, and little to lose
  for (std::size_t i = 0; i < 64; ++i) {
    white[65 * i] = 1;
  }
  EXPECT_LT(ratio_of_errors({256, 64}, 0.3, white), 1.2);
}

TEST(SpectralFeedback, SixtyFourStatesCountAsEight) {
  const std::vector<float> values = normal_values(64 * 100, 1);
  const Coded eight = code(fed_record({64, 100}, 0.2, 8), bytes_of(values));
  const Coded sixty_four = code(fed_record({64, 100}, 0.2, 64), bytes_of(values));
  EXPECT_EQ(eight.chunks.at(0).payload, sixty_four.chunks.at(0).payload);
}

// Where errors cannot be compensated, a request behaves like one without moments.
TEST(SpectralFeedback, MomentsThatDoNotFitAreIgnored) {
  const auto is_ignored = [](LossyRecord record) {
    const std::vector<float> values = normal_values(n_values_of(record.shape), 1);
    if (record.shape.size() > 1) {
      edited_request(record).steps.columns.assign(record.shape[1], 2);
    }
    EXPECT_FALSE(is_fed(record, bytes_of(values)));
    const Coded coded = code(record, bytes_of(values));
    edited_request(record).moments.reset();
    const Coded without = code(record, bytes_of(values));
    return coded.preamble == without.preamble && coded.decoded == without.decoded &&
           coded.n_bytes() == without.n_bytes();
  };
  for (const std::size_t n : {1, 64, 99, 101}) {
    LossyRecord record = fed_record({64, 100}, 0.2);
    edited_request(record).moments = moments_of(correlated(n));
    EXPECT_TRUE(is_ignored(record)) << n;
  }
  LossyRecord line = record_of({100}, 0.2);
  edited_request(line).moments = moments_of(correlated(100));
  EXPECT_TRUE(is_ignored(line));
  LossyRecord cut = fed_record({64, 100}, 0.2);
  cut.chunk_elems = 1050;
  EXPECT_TRUE(is_ignored(cut));
  EXPECT_TRUE(is_ignored(fed_record({8, 2, 100, 2}, 0.2)));  // no kernel
  // Moments of inputs that were always zero, or that no inputs have, are ignored too.
  LossyRecord silent = fed_record({64, 100}, 0.2);
  edited_request(silent).moments = moments_of(std::vector<float>(100 * 100));
  EXPECT_TRUE(is_ignored(silent));
  edited_request(silent).moments = moments_of(std::vector<float>(100 * 100, -1.0f));
  EXPECT_TRUE(is_ignored(silent));
}

// Other values are quantised, but errors are relative to the tensor's own, whatever its dtype.
TEST(SpectralFeedback, CorrectedValues) {
  const std::vector<float> values = normal_values(64 * 100, 1);
  std::vector<float> corrected = values;
  for (float& value : corrected) {
    value += 0.5f;
  }
  LossyRecord record = fed_record({64, 100}, 0.05);
  edited_request(record).corrected = std::make_shared<const std::vector<float>>(corrected);
  for (const std::uint64_t chunk_elems : {6400u, 1600u}) {
    record.chunk_elems = chunk_elems;
    const Coded coded = code(record, bytes_of(values));
    LossyRecord same = record;
    edited_request(same).corrected.reset();
    EXPECT_EQ(coded.decoded, code(same, bytes_of(corrected)).decoded);
  }
  std::vector<std::uint16_t> brain(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    brain[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  record.dtype = DType::kBF16;
  const Coded coded = code(record, bytes_of(brain));
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, coded.decoded.data() + 2 * i, sizeof(half));
    const std::uint32_t bits = std::uint32_t{half} << 16;
    float decoded;
    std::memcpy(&decoded, &bits, sizeof(decoded));
    sum += decoded - corrected[i];
  }
  EXPECT_LT(std::abs(sum / static_cast<double>(values.size())), 0.05);
  // Without moments that fit, the values themselves are quantised.
  record.dtype = DType::kF32;
  edited_request(record).moments = moments_of(correlated(99));
  LossyRecord plain = record;
  edited_request(plain).corrected.reset();
  EXPECT_EQ(code(record, bytes_of(values)).decoded, code(plain, bytes_of(values)).decoded);
  edited_request(record).corrected = std::make_shared<const std::vector<float>>(6399, 0.0f);
  const ReadValues read = [&](std::uint64_t, std::uint64_t, std::vector<std::byte>&) {
    return Result<ByteView>(bytes_of(values));
  };
  Scratch scratch;
  const auto refused = SpectralEncoder().plan(record, read, scratch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

// Matrices that are unusable, and tensors without content.
TEST(SpectralFeedback, Degenerate) {
  const Shape shape{40, 4, 3, 3};
  std::vector<float> values = normal_values(n_values_of(shape), 1);
  std::vector<float> indefinite = correlated(36);
  indefinite[1] = indefinite[36] = 1e30f;
  std::vector<float> one_alive(36 * 36);
  one_alive[37 * 5] = 1e-38f;
  for (const std::vector<float>& moments :
       {std::vector<float>(36 * 36), std::vector<float>(36 * 36, 1.0f), one_alive, indefinite,
        std::vector<float>(36 * 36, -1.0f), correlated(36, 1.01)}) {
    for (const double step : {1e300, 0.3, 1e-9}) {
      LossyRecord record = fed_record(shape, step);
      edited_request(record).moments = moments_of(moments);
      const Coded coded = code(record, bytes_of(values));
      // Columns without effect may be coarser by a factor of 16, and so may their bands.
      EXPECT_LE(coded.max_error, std::min(10.0, 9 * 256 * 4 * step));
    }
  }
  LossyRecord record = fed_record(shape, 0.2);
  for (std::size_t i = 0; i < values.size(); ++i) {  // rows and channels of zeros
    if (i / 36 % 3 == 0 || i / 9 % 4 == 1) {
      values[i] = 0;
    }
  }
  EXPECT_LT(code(record, bytes_of(values)).max_error, 3);
  std::fill(values.begin(), values.end(), 0.0f);
  const Coded zeros = code(record, bytes_of(values));
  EXPECT_EQ(zeros.sum_of_squares, 0);
  EXPECT_LT(zeros.n_bytes(), 200u);
  std::fill(values.begin(), values.end(), 3.25f);
  EXPECT_LE(code(record, bytes_of(values)).max_error, 3);
}

TEST(SpectralFeedback, NumbersThatAreNoneStayBitForBit) {
  for (const Shape& shape : {Shape{64, 8, 3, 3}, Shape{64, 72}}) {
    std::vector<float> values = normal_values(64 * 72, 0.02f);
    const std::size_t places[] = {0, 5, 17, 1000, values.size() - 1};
    const std::uint32_t patterns[] = {0x7fc00000u, 0xff800000u, 0x7f800000u, 0x7f800001u,
                                      0xffc12345u};
    for (std::size_t i = 0; i < std::size(places); ++i) {
      std::memcpy(&values[places[i]], &patterns[i], 4);
    }
    const LossyRecord record = fed_record(shape, 0.004);
    EXPECT_TRUE(is_fed(record, bytes_of(values)));
    const Coded coded = code(record, bytes_of(values));
    for (std::size_t i = 0; i < std::size(places); ++i) {
      EXPECT_EQ(std::memcmp(coded.decoded.data() + 4 * places[i], &patterns[i], 4), 0);
    }
    EXPECT_LT(coded.max_error, 0.1);
  }
}

TEST(SpectralFeedback, AMaximumErrorIsKept) {
  const std::vector<float> values = normal_values(64 * 72, 0.02f);
  for (const double bound : {0.02, 0.004, 0.001}) {
    LossyRecord record = fed_record({64, 8, 3, 3}, 0.004);
    edited_request(record).max_abs_error = bound;
    EXPECT_LE(code(record, bytes_of(values)).max_error, bound);
  }
}

TEST(SpectralFeedback, OutliersAreEscapes) {
  std::vector<float> values = normal_values(64 * 100, 0.01f);
  values[77] = 50;
  values[4000] = -1e6f;
  values[4001] = 1e38f;
  for (const unsigned n_states : {1, 4, 8}) {
    const Coded coded = code(fed_record({64, 100}, 0.005, n_states), bytes_of(values));
    const std::vector<float> after = floats_of(coded);
    for (std::size_t row = 0; row < 40; ++row) {
      if (row != 0) {  // rows without them are as good as ever
        const auto first = static_cast<std::ptrdiff_t>(100 * row);
        const std::vector<float> ours(values.begin() + first, values.begin() + first + 100);
        const std::vector<float> theirs(after.begin() + first, after.begin() + first + 100);
        EXPECT_LT(output_error(ours, theirs, correlated(100), 100), 16 * 100 * 0.005 * 0.005);
      }
    }
  }
}

TEST(SpectralFeedback, TheSameBytesAtEveryLevelOfCpu) {
  const CpuLevel best = cpu_level();
  std::mt19937 random(31);
  for (unsigned trial = 0; trial < 24; ++trial) {
    const Shape shapes[] = {{1 + random() % 200, 1 + random() % 200},
                            {1 + random() % 90, 1 + random() % 12, 3, 3},
                            {1 + random() % 60, 1 + random() % 20, 5},
                            {600, 130}};
    const Shape& shape = shapes[trial % 4];
    const std::vector<float> values = normal_values(n_values_of(shape), 1, trial);
    LossyRecord record = fed_record(shape, std::exp2(static_cast<double>(random() % 8) - 6),
                                    std::array{1u, 4u, 8u}[random() % 3]);
    record.chunk_elems = (1 + random() % shape[0]) * (values.size() / shape[0]);
    set_cpu_level(CpuLevel::kBaseline);
    const Coded baseline = code(record, bytes_of(values));
    for (const CpuLevel level : {CpuLevel::kV3, CpuLevel::kV4}) {
      if (level <= best) {
        set_cpu_level(level);
        const Coded coded = code(record, bytes_of(values));
        EXPECT_EQ(coded.preamble, baseline.preamble);
        ASSERT_EQ(coded.chunks.size(), baseline.chunks.size());
        for (std::size_t c = 0; c < coded.chunks.size(); ++c) {
          EXPECT_EQ(coded.chunks[c].payload, baseline.chunks[c].payload) << trial;
        }
      }
    }
    set_cpu_level(best);
  }
}

}  // namespace
}  // namespace cfck::spectral
