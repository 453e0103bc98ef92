// The same bytes at every CPU level that this machine has.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "codec/symboliser/class_stream.hpp"
#include "codec/symboliser/kernel_levels.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

struct SplitResult {
  ChunkAnalysis analysis;
  std::vector<GroupCode> groups;
  std::vector<std::uint8_t> symbols;
  std::vector<std::byte> raw;
  std::vector<std::byte> escapes;
  std::vector<std::byte> merged;
};

template <class Format>
SplitResult run_level(CpuLevel level, const std::vector<std::byte>& values) {
  const auto& kernels = std::get<ChunkKernels<Format>>(kernels_of(level));
  const std::size_t n = values.size() / sizeof(typename Format::Word);
  const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
  SplitResult result;
  result.groups.resize(n_groups);
  SymbolLayout layout;
  result.analysis = kernels.analyse(values.data(), n, result.groups.data());
  layout.has_signs = result.analysis.has_signs;
  std::vector<std::uint8_t> class_symbols(n_groups);
  std::vector<std::byte> class_escapes(2 * n_groups);
  write_class_stream(result.groups.data(), n_groups, class_symbols.data(), class_escapes.data());
  result.symbols.resize((n_groups + 1) * kGroupSize);
  result.escapes.resize(values.size());
  result.raw.resize(values.size() + 64 * sizeof(typename Format::Word));
  SplitCursors to;
  to.streams[0] = result.symbols.data();
  to.raw = result.raw.data();
  to.escapes = result.escapes.data();
  kernels.split(values.data(), n, result.groups.data(), layout, to);
  const auto n_symbols = static_cast<std::size_t>(to.streams[0] - result.symbols.data());
  std::memset(result.symbols.data() + n_symbols, 0, result.symbols.size() - n_symbols);
  const auto escape_bytes = static_cast<std::size_t>(to.escapes - result.escapes.data());
  result.escapes.resize(escape_bytes);
  result.raw.resize(static_cast<std::size_t>(to.raw - result.raw.data()));

  MergeCursors from;
  from.streams[0] = result.symbols.data();
  from.raw = result.raw.data();
  from.escapes = result.escapes.data();
  from.n_escapes = escape_bytes / sizeof(typename Format::Word);
  result.merged.resize(values.size());
  EXPECT_TRUE(kernels.merge(result.merged.data(), n, result.groups.data(), layout, from));
  return result;
}

template <class Word>
ZeroCounts count_zeros(const std::vector<std::byte>& values) {
  ZeroCounts counts;
  for (std::size_t i = 0; i < values.size(); i += sizeof(Word)) {
    Word value;
    std::memcpy(&value, values.data() + i, sizeof(Word));
    counts.positive += value == 0;
    counts.negative += value == static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  }
  return counts;
}

template <class Format>
void compare_levels(DType dtype) {
  for (const Pattern pattern : kAllPatterns) {
    for (const std::uint64_t n : {1u, 129u, 1000u, 12345u}) {
      SCOPED_TRACE(describe(dtype, pattern, n));
      const std::vector<std::byte> values = make_values(dtype, pattern, n);
      const SplitResult expected = run_level<Format>(CpuLevel::kBaseline, values);
      EXPECT_TRUE(expected.merged == values);
      const ZeroCounts zeros = count_zeros<typename Format::Word>(values);
      EXPECT_EQ(expected.analysis.zeros.positive, zeros.positive);
      EXPECT_EQ(expected.analysis.zeros.negative, zeros.negative);
      for (const CpuLevel level : {CpuLevel::kV3, CpuLevel::kV4}) {
        if (level > cpu_level()) {
          continue;
        }
        const SplitResult result = run_level<Format>(level, values);
        EXPECT_EQ(result.analysis.has_signs, expected.analysis.has_signs);
        EXPECT_EQ(result.analysis.zeros.positive, zeros.positive);
        EXPECT_EQ(result.analysis.zeros.negative, zeros.negative);
        EXPECT_EQ(std::memcmp(result.groups.data(), expected.groups.data(),
                              expected.groups.size() * sizeof(GroupCode)),
                  0);
        EXPECT_TRUE(result.symbols == expected.symbols);
        EXPECT_TRUE(result.raw == expected.raw);
        EXPECT_TRUE(result.escapes == expected.escapes);
        EXPECT_TRUE(result.merged == values);
      }
    }
  }
}

TEST(CpuLevels, GiveTheSameBytes) {
  compare_levels<FormatF64>(DType::kF64);
  compare_levels<FormatF32>(DType::kF32);
  compare_levels<FormatBf16>(DType::kBF16);
  compare_levels<FormatF16>(DType::kF16);
  compare_levels<FormatE5m2>(DType::kF8E5M2);
  compare_levels<FormatE4m3>(DType::kF8E4M3);
  compare_levels<With32Symbols<FormatF64>>(DType::kF64);
  compare_levels<With32Symbols<FormatF32>>(DType::kF32);
  compare_levels<With32Symbols<FormatBf16>>(DType::kBF16);
  compare_levels<With32Symbols<FormatF16>>(DType::kF16);
  compare_levels<With32Symbols<FormatE5m2>>(DType::kF8E5M2);
  compare_levels<With32Symbols<FormatE4m3>>(DType::kF8E4M3);
}

}  // namespace
}  // namespace cfck::codec
