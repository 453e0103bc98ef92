// Every CPU level of this machine gives the same bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/kernel_levels.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/support/cpu_forms.hpp"

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

using test::CpuForm;
using test::kCpuForms;

template <class Format>
const ChunkKernels<Format>& kernels_of_form(const CpuForm& form) {
  allow_vbmi2(form.allows_vbmi2);
  const auto& kernels = std::get<ChunkKernels<Format>>(kernels_of(form.level));
  allow_vbmi2(true);
  return kernels;
}

// The parts into which groups are split, as they were analysed, with signs.
struct Parts {
  std::vector<std::uint8_t> symbols;
  std::vector<std::byte> raw;
  std::vector<std::byte> escapes;

  explicit Parts(const std::vector<std::byte>& values)
      : symbols(values.size() + kGroupSize),
        raw(values.size() + 64 * sizeof(std::uint64_t)),
        escapes(values.size()) {}
  SplitCursors cursors() { return {{symbols.data()}, raw.data(), escapes.data()}; }
  void end_at(const SplitCursors& to) {
    symbols.resize(static_cast<std::size_t>(to.streams[0] - symbols.data()));
    raw.resize(static_cast<std::size_t>(to.raw - raw.data()));
    escapes.resize(static_cast<std::size_t>(to.escapes - escapes.data()));
  }
  bool operator==(const Parts&) const = default;
};

// Analysing and splitting at once is the same as one after the other.
template <class Format>
void check_both_at_once(const std::vector<std::byte>& values) {
  const std::size_t n = values.size() / sizeof(typename Format::Word);
  std::vector<GroupCode> groups((n + kGroupSize - 1) / kGroupSize);
  const auto& plain = kernels_of_form<Format>(kCpuForms[0]);
  const ChunkAnalysis analysis = plain.analyse(values.data(), n, groups.data());
  Parts expected(values);
  SplitCursors to = expected.cursors();
  plain.split(values.data(), n, groups.data(), SymbolLayout{}, to);
  expected.end_at(to);
  bool is_split_at_baseline = false;
  for (const CpuForm& form : kCpuForms) {
    if (form.level > cpu_level()) {
      continue;
    }
    std::vector<GroupCode> found_groups(groups.size());
    Parts parts(values);
    to = parts.cursors();
    const ChunkAnalysis found =
        kernels_of_form<Format>(form).analyse_and_split(values.data(), n, found_groups.data(), to);
    EXPECT_EQ(found.has_signs, analysis.has_signs);
    EXPECT_EQ(found.zeros.positive, analysis.zeros.positive);
    EXPECT_EQ(found.zeros.negative, analysis.zeros.negative);
    EXPECT_EQ(std::memcmp(found_groups.data(), groups.data(), groups.size() * sizeof(GroupCode)),
              0);
    is_split_at_baseline |= form.level == CpuLevel::kBaseline && found.is_split;
    EXPECT_EQ(found.is_split, is_split_at_baseline);
    if (found.is_split) {
      parts.end_at(to);
      EXPECT_TRUE(parts == expected);
    }
  }
}

template <class Format>
SplitResult run_level(const CpuForm& form, const std::vector<std::byte>& values) {
  const auto& kernels = kernels_of_form<Format>(form);
  const std::size_t n = values.size() / sizeof(typename Format::Word);
  const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
  SplitResult result;
  result.groups.resize(n_groups);
  SymbolLayout layout;
  result.analysis = kernels.analyse(values.data(), n, result.groups.data());
  layout.has_signs = result.analysis.has_signs;
  std::vector<std::uint8_t> bin_symbols(n_groups);
  std::vector<std::byte> bin_escapes(2 * n_groups);
  write_bin_stream(result.groups.data(), n_groups, bin_symbols.data(), bin_escapes.data());
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
      const SplitResult expected = run_level<Format>(kCpuForms[0], values);
      EXPECT_TRUE(expected.merged == values);
      const ZeroCounts zeros = count_zeros<typename Format::Word>(values);
      EXPECT_EQ(expected.analysis.zeros.positive, zeros.positive);
      EXPECT_EQ(expected.analysis.zeros.negative, zeros.negative);
      if constexpr (Format::kSymbolMantissaBits == 1) {
        check_both_at_once<Format>(values);
      }
      for (const CpuForm& form : kCpuForms) {
        if (form.level > cpu_level()) {
          continue;
        }
        const SplitResult result = run_level<Format>(form, values);
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
