// The spectral codec gives equal bytes and values at every CPU level, and its vectors find what the
// search value by value finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "codec/lossy.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/plan/request.hpp"
#include "tests/spectral/search_cases.hpp"

namespace cfck::spectral {
namespace {

constexpr CpuLevel kLevels[] = {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4};

std::vector<const SpectralKernels*> levels() {
  std::vector<const SpectralKernels*> found;
  for (const CpuLevel level : kLevels) {
    if (level <= cpu_level()) {
      found.push_back(&spectral_kernels_of(level));
    }
  }
  return found;
}

// Restores the level at its end.
class LevelRestorer {
 public:
  ~LevelRestorer() { set_cpu_level(level_); }
  CpuLevel best() const { return level_; }

 private:
  const CpuLevel level_ = cpu_level();
};

TEST(SpectralLevels, VectorsFindWhatSingleValuesFind) {
  std::mt19937 random(7);
  unsigned n_by_states[kMaxTrellisStates + 1] = {};
  for (unsigned trial = 0; trial < 400; ++trial) {
    const SearchCase made = random_case(random);
    const FoundIndices plain = found_by_lanes(made, random);
    for (const SpectralKernels* kernels : levels()) {
      EXPECT_TRUE(found_by(*kernels, made) == plain) << trial << " " << made.n_states;
    }
    ++n_by_states[made.n_states];
  }
  for (const unsigned n_states : {1u, 4u, 8u, 64u}) {
    EXPECT_GT(n_by_states[n_states], 0u);
  }
}

TEST(SpectralLevels, PassesOverValues) {
  std::mt19937 random(8);
  for (unsigned trial = 0; trial < 100; ++trial) {
    const std::size_t n = 1 + random() % 1000;
    const DType dtype =
        std::array{DType::kF64, DType::kF32, DType::kBF16, DType::kF16}[random() % 4];
    const std::size_t width = bits_per_element(dtype) / 8;
    std::vector<std::byte> values(n * width);
    std::vector<std::byte> decoded(n * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::byte>(random());
      decoded[i] = random() % 4 == 0 ? static_cast<std::byte>(random()) : values[i];
    }
    struct Passed {
      std::vector<double> doubles;
      std::vector<float> in_steps;
      std::vector<std::int32_t> indices;
      std::vector<GroupCode> groups;
      std::vector<std::byte> stored;
      ErrorTotals totals;
      bool is_clean = false;
    };
    std::vector<Passed> all;
    for (const SpectralKernels* kernels : levels()) {
      Passed& passed = all.emplace_back();
      passed.doubles.resize(n);
      passed.in_steps.resize(n);
      passed.indices.resize(n);
      passed.groups.resize((n + kGroupSize - 1) / kGroupSize);
      passed.stored.resize(n * width);
      kernels->load_values(dtype, values.data(), n, passed.doubles.data());
      kernels->divide(passed.doubles.data(), nullptr, 0.37, n, passed.in_steps.data());
      kernels->assign_bins(passed.in_steps.data(), n, 8, passed.groups.data());
      kernels->round_indices(passed.in_steps.data(), n, 8, passed.indices.data());
      passed.is_clean =
          kernels->compare(dtype, values.data(), decoded.data(), n, 0.25, passed.totals) == 0;
      if (dtype == DType::kF64) {
        kernels->store_doubles(passed.doubles.data(), n, passed.stored.data());
      } else {
        kernels->store_floats(dtype, passed.in_steps.data(), n, passed.stored.data());
      }
    }
    for (const Passed& passed : all) {
      EXPECT_EQ(passed.doubles, all[0].doubles);
      EXPECT_EQ(passed.in_steps, all[0].in_steps);
      EXPECT_EQ(passed.indices, all[0].indices);
      EXPECT_EQ(passed.stored, all[0].stored);
      EXPECT_EQ(std::memcmp(&passed.totals, &all[0].totals, sizeof(ErrorTotals)), 0);
      EXPECT_EQ(passed.is_clean, all[0].is_clean);
      for (std::size_t g = 0; g < passed.groups.size(); ++g) {
        EXPECT_EQ(passed.groups[g].scale_bin, all[0].groups[g].scale_bin);
        EXPECT_EQ(passed.groups[g].kind, all[0].groups[g].kind);
      }
    }
  }
}

struct Coded {
  std::vector<std::byte> bytes;  // preamble and payloads
  std::vector<std::byte> decoded;
  double sum_of_squares = 0;

  bool operator==(const Coded&) const = default;
};

// Also checks that decoding gives what the encoder reported.
Coded code(const LossyRecord& record, const std::vector<std::byte>& values) {
  const std::size_t width = bits_per_element(record.dtype) / 8;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(ByteView(values).subspan(first * width, n * width));
  };
  Scratch scratch;
  Coded coded;
  const auto decision = find_lossy_encoder(CodecId::kSpectral)->plan(record, read, scratch);
  EXPECT_TRUE(decision && decision->plan != nullptr);
  if (!decision || decision->plan == nullptr) {
    return coded;
  }
  const LossyPlan& plan = *decision->plan;
  coded.bytes.assign(plan.preamble().begin(), plan.preamble().end());
  coded.decoded.resize(values.size());
  const std::uint64_t n_values = values.size() / width;
  for (std::uint64_t first = 0; first < n_values; first += record.chunk_elems) {
    const std::uint64_t n = std::min<std::uint64_t>(record.chunk_elems, n_values - first);
    EncodedChunk chunk;
    ErrorTotals errors;
    std::vector<std::byte> told(n * width);
    EXPECT_TRUE(plan.encode(first, ByteView(values).subspan(first * width, n * width), scratch,
                            told, chunk, errors));
    ChunkInfo info;
    info.dtype = record.dtype;
    info.entropy = plan.entropy();
    info.n_elems = n;
    info.first_elem = first;
    info.shape = record.shape;
    info.preamble = plan.preamble();
    const MutableBytes back = MutableBytes(coded.decoded).subspan(first * width, n * width);
    EXPECT_TRUE(find_decoder(CodecId::kSpectral)->decode(info, chunk.payload, scratch, back));
    EXPECT_TRUE(std::equal(told.begin(), told.end(), back.begin()));
    coded.bytes.insert(coded.bytes.end(), chunk.payload.begin(), chunk.payload.end());
    coded.sum_of_squares += errors.sum_of_squares;
  }
  return coded;
}

LossyRecord random_record(std::mt19937& random) {
  const auto between = [&](std::uint64_t low, std::uint64_t high) {
    return low + random() % (high - low + 1);
  };
  LossyRecord record;
  record.dtype = std::array{DType::kF32, DType::kF32, DType::kF64, DType::kBF16}[random() % 4];
  const Shape shapes[] = {{between(1, 9000)},
                          {between(1, 90), between(1, 90)},
                          {between(1, 20), between(1, 20), 3, 3},
                          {between(1, 8), between(1, 8), 5, 5},
                          {between(1, 8), between(1, 8), 2, 3, 4},
                          {between(2, 3), between(40000, 90000)},
                          {between(1, 30), between(2, 40), 5}};
  record.shape = shapes[random() % std::size(shapes)];
  std::uint64_t row_values = 1;
  for (std::size_t a = 1; a < record.shape.size(); ++a) {
    row_values *= record.shape[a];
  }
  record.chunk_elems = random() % 2 == 0 ? 1u << 18 : row_values * between(1, 8);
  record.entropy = random() % 4 == 0 ? EntropyId::kZstd : EntropyId::kRans;
  record.is_forced = true;
  SpectralRequest request;
  request.step = std::exp2(static_cast<double>(random() % 24) - 18);
  request.n_states = std::array{1u, 4u, 8u, 64u}[random() % 4];
  request.lambda = random() % 2 == 0 ? 0 : 0.1;
  if (random() % 3 == 0) {
    request.max_abs_error = request.step;
  }
  record.request = std::make_shared<SpectralRequest>(request);
  return record;
}

TEST(SpectralLevels, TheSameBytesAndValues) {
  const LevelRestorer restorer;
  std::mt19937 random(9);
  for (unsigned trial = 0; trial < 120; ++trial) {
    const LossyRecord record = random_record(random);
    std::size_t n = 1;
    for (const std::uint64_t length : record.shape) {
      n *= length;
    }
    const std::size_t width = bits_per_element(record.dtype) / 8;
    std::vector<std::byte> values(n * width);
    std::normal_distribution<float> normal(0, 1);
    for (std::size_t i = 0; i < n; ++i) {
      // The bits of a float, or of its upper half.
      const float value = normal(random) * (random() % 500 == 0 ? 100.0f : 1.0f);
      const double wide = value;
      const auto* const from = reinterpret_cast<const std::byte*>(&value);
      const auto* const bytes =
          width == 8 ? reinterpret_cast<const std::byte*>(&wide) : from + (sizeof(value) - width);
      std::copy(bytes, bytes + width, values.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    set_cpu_level(CpuLevel::kBaseline);
    const Coded baseline = code(record, values);
    for (const CpuLevel level : kLevels) {
      if (level <= restorer.best() && level != CpuLevel::kBaseline) {
        set_cpu_level(level);
        EXPECT_TRUE(code(record, values) == baseline) << trial;
      }
    }
  }
}

}  // namespace
}  // namespace cfck::spectral
