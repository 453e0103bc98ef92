// Analysis and split of groups by a warp, on the emulator, against the passes of the CPU: every
// float format, pattern and number of values around whole groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/device/split_device.cuh"
#include "codec/symboliser/symboliser.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::codec {
namespace {

constexpr DType kFloats[] = {DType::kF64,    DType::kF32,    DType::kBF16,      DType::kF16,
                             DType::kF8E5M2, DType::kF8E4M3, DType::kF8E5M2Fnuz};

// What one pass over a chunk leaves.
template <class Format>
struct SplitChunk {
  std::vector<std::uint8_t> symbols;
  std::vector<std::byte> raw;
  std::vector<typename Format::Word> escapes;

  explicit SplitChunk(std::size_t n)
      : symbols(n + 2 * kGroupSize),
        raw((n + 2 * kGroupSize) * sizeof(typename Format::Word)),
        escapes(n + kGroupSize) {}
  void resize(std::size_t n_symbols, std::size_t n_raw, std::size_t n_escapes) {
    symbols.resize(n_symbols);
    raw.resize(n_raw);
    escapes.resize(n_escapes);
  }
  bool operator==(const SplitChunk&) const = default;
};

template <class Format>
class Chunk {
  using Word = typename Format::Word;

 public:
  Chunk(DType dtype, Pattern pattern, std::size_t n) : values_(n), n_(n) {
    const std::vector<std::byte> bytes = make_values(dtype, pattern, n, n);
    std::memcpy(values_.data(), bytes.data(), bytes.size());
  }

  void expect_same_analysis(simt::LaneOrder order) {
    std::vector<GroupCode> expected(n_groups());
    const ChunkAnalysis whole =
        chunk_kernels<Format>().analyse(bytes().data(), n_, expected.data());
    groups_.resize(n_groups());
    ChunkAnalysis found;
    std::array<LaneFindings<Word>, simt::kWarpLanes> of_lanes;
    simt::Launch launch;
    launch.order = order;
    simt::emulate(launch, 0, [&](void*) {
      for (std::uint32_t g = 0; g < n_groups(); ++g) {
        const GroupCode code = analyse_group_of(load_group_of<Format>(values_.data(), count(), g),
                                                values_[0], of_lanes[simt::lane()]);
        if (simt::lane() == g % simt::kWarpLanes) {
          groups_[g] = code;
        }
      }
    });
    bool differs = false;
    for (const LaneFindings<Word>& of_lane : of_lanes) {
      found.has_signs = found.has_signs || of_lane.in_use >> (Format::kBits - 1) != 0;
      found.zeros.positive += of_lane.n_positive_zeros;
      found.zeros.negative += of_lane.n_negative_zeros;
      differs = differs || of_lane.differing != 0;
    }
    EXPECT_EQ(differs, std::ranges::count(values_, values_[0]) != std::ssize(values_));
    for (std::size_t g = 0; g < n_groups(); ++g) {
      ASSERT_EQ(groups_[g].kind, expected[g].kind) << "group " << g;
      ASSERT_EQ(groups_[g].scale_bin, expected[g].scale_bin) << "group " << g;
      ASSERT_EQ(groups_[g].trailing_zero_bits, expected[g].trailing_zero_bits) << "group " << g;
    }
    EXPECT_EQ(found.has_signs, whole.has_signs);
    EXPECT_EQ(found.zeros.positive, whole.zeros.positive);
    EXPECT_EQ(found.zeros.negative, whole.zeros.negative);
    has_signs_ = found.has_signs;
  }

  // With the bins of the groups, their own trailing zero bits or none, and signs or none.
  void expect_same_split(simt::LaneOrder order, bool with_signs, bool with_zero_bits) {
    std::vector<std::uint8_t> bins(n_groups());
    std::vector<std::byte> bin_escapes(2 * n_groups());
    write_bin_stream(groups_.data(), n_groups(), bins.data(), bin_escapes.data());
    std::vector<GroupCode> groups = groups_;
    for (GroupCode& group : groups) {
      group.trailing_zero_bits = with_zero_bits ? group.trailing_zero_bits : std::uint8_t{0};
    }
    const SymbolLayout layout{1, has_signs_ || with_signs};
    EXPECT_TRUE(emulated(groups, layout.has_signs, order) == of_cpu(groups, layout));
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(n_); }
  std::uint32_t n_groups() const { return (count() + kGroupSize - 1) / kGroupSize; }
  ByteView bytes() const {
    return {reinterpret_cast<const std::byte*>(values_.data()), n_ * sizeof(Word)};
  }

  SplitChunk<Format> of_cpu(const std::vector<GroupCode>& groups, const SymbolLayout& layout) {
    SplitChunk<Format> chunk(n_);
    SplitCursors to;
    to.streams[0] = chunk.symbols.data();
    to.raw = chunk.raw.data();
    auto* const escapes = reinterpret_cast<std::byte*>(chunk.escapes.data());
    to.escapes = escapes;
    chunk_kernels<Format>().split(bytes().data(), n_, groups.data(), layout, to);
    chunk.resize(static_cast<std::size_t>(to.streams[0] - chunk.symbols.data()),
                 static_cast<std::size_t>(to.raw - chunk.raw.data()),
                 static_cast<std::size_t>(to.escapes - escapes) / sizeof(Word));
    return chunk;
  }

  SplitChunk<Format> emulated(const std::vector<GroupCode>& groups, bool has_signs,
                              simt::LaneOrder order) {
    SplitChunk<Format> chunk(n_);
    std::vector<std::uint32_t> symbols(chunk.symbols.size() / 4);
    auto* const first_symbol = reinterpret_cast<std::uint8_t*>(symbols.data());
    std::size_t n_bytes[3] = {};
    simt::Launch launch;
    launch.order = order;
    simt::emulate(launch, kGroupSize, [&](void* shared) {
      DeviceSplitCursors<Format> to{first_symbol, reinterpret_cast<std::uint8_t*>(chunk.raw.data()),
                                    chunk.escapes.data()};
      for (std::uint32_t g = 0; g < n_groups(); ++g) {
        if (groups[g].kind != GroupKind::kAllZero) {
          split_group_of(load_group_of<Format>(values_.data(), count(), g), groups[g], has_signs,
                         static_cast<std::uint8_t*>(shared), to);
        }
      }
      if (simt::lane() == 5) {
        n_bytes[0] = static_cast<std::size_t>(to.symbols - first_symbol);
        n_bytes[1] =
            static_cast<std::size_t>(to.raw - reinterpret_cast<std::uint8_t*>(chunk.raw.data()));
        n_bytes[2] = static_cast<std::size_t>(to.escapes - chunk.escapes.data());
      }
    });
    chunk.resize(n_bytes[0], n_bytes[1], n_bytes[2]);
    // Lanes have four symbols each, which stand together.
    for (std::size_t i = 0; i < n_bytes[0]; ++i) {
      const std::size_t in_group = i % kGroupSize;
      chunk.symbols[i] = first_symbol[i - in_group + in_group % 32 * 4 + in_group / 32];
    }
    return chunk;
  }

  std::vector<Word> values_;
  std::size_t n_;
  std::vector<GroupCode> groups_;
  bool has_signs_ = false;
};

class EmulatedEncodeSplit : public ::testing::TestWithParam<DType> {};

TEST_P(EmulatedEncodeSplit, IsThatOfTheCpu) {
  constexpr simt::LaneOrder kOrders[] = {simt::LaneOrder::kAscending, simt::LaneOrder::kDescending,
                                         simt::LaneOrder::kShuffled};
  const DType dtype = GetParam();
  visit_format(
      dtype,
      [&](auto tag) {
        using Format = With32Symbols<typename decltype(tag)::type>;
        unsigned i = 0;
        for (const Pattern pattern : kAllPatterns) {
          for (const std::size_t n : {1, 2, 31, 33, 127, 128, 129, 400, 1301}) {
            SCOPED_TRACE(testing::Message() << pattern_name(pattern) << ", " << n << " values");
            const simt::LaneOrder order = kOrders[i++ % 3];
            Chunk<Format> chunk(dtype, pattern, n);
            chunk.expect_same_analysis(order);
            chunk.expect_same_split(order, i % 2 == 0, true);
            chunk.expect_same_split(order, i % 2 != 0, false);
          }
        }
      },
      [] { FAIL(); });
}

std::string name_of(const ::testing::TestParamInfo<DType>& tested) {
  return std::string(dtype_name(tested.param));
}
INSTANTIATE_TEST_SUITE_P(OfFloats, EmulatedEncodeSplit, ::testing::ValuesIn(kFloats), name_of);

}  // namespace
}  // namespace cfck::codec
