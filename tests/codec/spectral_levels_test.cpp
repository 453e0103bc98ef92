// The spectral codec makes the same bytes and values at every CPU level, and its vectors find
// what the search value by value finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "codec/entropy/static_tables.hpp"
#include "codec/lossy.hpp"
#include "codec/spectral/spectral_kernels.hpp"

namespace cfck::codec {
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

// Values in steps, the groups they are in, and weights.
struct SearchCase {
  std::vector<float> values;
  std::vector<GroupCode> groups;
  std::vector<SymbolWeights> weights;
  bool is_weighed = false;
  unsigned n_states = 8;
  unsigned n_lanes = 32;
};

SearchCase random_case(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  SearchCase made;
  made.n_states = std::array{1u, 4u, 8u, 64u}[below(4)];
  made.n_lanes = 32u << below(3);
  made.is_weighed = below(2) != 0;
  made.values.resize(1 + below(3000));
  made.groups.resize((made.values.size() + kGroupSize - 1) / kGroupSize);
  std::normal_distribution<float> normal;
  const unsigned base = 1 + below(below(4) == 0 ? kMaxSpectralClass : 50);
  for (std::size_t g = 0; g < made.groups.size(); ++g) {
    const unsigned scale_class = std::min(base + below(6), kMaxSpectralClass);
    made.groups[g] = {static_cast<std::uint16_t>(scale_class), 0,
                      below(8) == 0 ? GroupKind::kAllZero : GroupKind::kValues};
    const float scale = std::exp2((static_cast<float>(scale_class) - 26) / 4);
    const std::size_t end = std::min(made.values.size(), (g + 1) * kGroupSize);
    for (std::size_t i = g * kGroupSize; i < end; ++i) {
      made.values[i] = std::clamp(normal(random) * scale, -0x1p30f, 0x1p30f);
      switch (below(64)) {
        case 0:
          made.values[i] = below(2) != 0 ? 0.0f : -0.0f;
          break;
        case 1:  // half way between codes
          made.values[i] = std::nearbyint(made.values[i]) + 0.5f;
          break;
        case 2:
          made.values[i] *= 40;
          break;
        case 3:
          made.values[i] = below(2) != 0 ? 0x1p30f : -0x1p30f;
          break;
        default:
          break;
      }
    }
  }
  made.weights.resize(kDirectTables);
  for (SymbolWeights& table : made.weights) {
    for (auto& of_quantiser : table.of) {
      for (float& weight : of_quantiser) {
        weight = static_cast<float>(below(1000)) * 0.001f;
      }
    }
  }
  return made;
}

struct Found {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> quantisers;
  std::vector<std::int32_t> codes;  // 0 in groups without low bits
  std::vector<std::byte> path;
  std::vector<std::byte> raw;

  bool operator==(const Found&) const = default;
};

Found found_by(const SpectralKernels& kernels, const SearchCase& made, bool is_plain) {
  const std::size_t n_room = made.groups.size() * kGroupSize;
  Found found;
  found.symbols.resize(n_room);
  found.quantisers.resize(n_room);
  found.codes.resize(n_room);
  found.path.resize(n_room / 8);
  found.raw.resize(n_room * 4);
  std::vector<std::uint8_t> decisions(n_room * decision_bytes(made.n_states));
  TrellisSearch search;
  search.values = made.values.data();
  search.n_values = made.values.size();
  search.groups = made.groups.data();
  search.weights = made.is_weighed ? made.weights.data() : nullptr;
  search.n_states = made.n_states;
  search.n_lanes = made.n_lanes;
  search.symbols = found.symbols.data();
  search.quantisers = found.quantisers.data();
  search.codes = found.codes.data();
  search.decisions = decisions.data();
  search.is_plain = is_plain;
  kernels.search(search);
  kernels.write_planes(search, found.path.data(), found.raw.data());
  std::size_t coded = 0;
  for (const GroupCode& group : made.groups) {
    if (group.kind == GroupKind::kAllZero) {
      continue;
    }
    if (kSymbolCodes.of[group.scale_class].low_bits == 0) {
      const auto first = found.codes.begin() + static_cast<std::ptrdiff_t>(coded * kGroupSize);
      std::fill_n(first, kGroupSize, 0);
    }
    ++coded;
  }
  return found;
}

TEST(SpectralLevels, VectorsFindWhatSingleValuesFind) {
  std::mt19937 random(7);
  for (unsigned trial = 0; trial < 300; ++trial) {
    const SearchCase made = random_case(random);
    const Found plain = found_by(*levels()[0], made, true);
    for (const SpectralKernels* kernels : levels()) {
      EXPECT_TRUE(found_by(*kernels, made, true) == plain);
      EXPECT_TRUE(found_by(*kernels, made, false) == plain) << trial << " " << made.n_states;
    }
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
      std::vector<std::int32_t> codes;
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
      passed.codes.resize(n);
      passed.groups.resize((n + kGroupSize - 1) / kGroupSize);
      passed.stored.resize(n * width);
      kernels->load_values(dtype, values.data(), n, passed.doubles.data());
      kernels->divide(passed.doubles.data(), nullptr, 0.37, n, passed.in_steps.data());
      kernels->classify(passed.in_steps.data(), n, 8, passed.groups.data());
      kernels->round_codes(passed.in_steps.data(), n, 8, passed.codes.data());
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
      EXPECT_EQ(passed.codes, all[0].codes);
      EXPECT_EQ(passed.stored, all[0].stored);
      EXPECT_EQ(std::memcmp(&passed.totals, &all[0].totals, sizeof(ErrorTotals)), 0);
      EXPECT_EQ(passed.is_clean, all[0].is_clean);
      for (std::size_t g = 0; g < passed.groups.size(); ++g) {
        EXPECT_EQ(passed.groups[g].scale_class, all[0].groups[g].scale_class);
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

// Also checks that what comes back is what the encoder said.
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
  record.spectral = request;
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
}  // namespace cfck::codec
