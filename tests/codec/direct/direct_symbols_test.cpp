// Symbols of the stage rans, one for each index: equal at every CPU level, merged to indices or
// straight to values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "tests/codec/direct/direct_levels.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

// Symbols, raw bits and escapes of indices in groups.
struct Parts {
  std::vector<std::uint8_t> symbols;
  std::vector<std::byte> raw;
  std::vector<std::int32_t> escapes;
};

Parts split_symbols(const DirectKernels& level, const std::vector<std::int32_t>& indices,
                    std::size_t n, const std::vector<GroupCode>& groups) {
  Parts parts;
  parts.symbols.resize(n + kGroupSize);
  parts.raw.resize(4 * n + 64);
  parts.escapes.resize(n);
  DirectSplit to;
  to.streams[0] = parts.symbols.data();
  to.raw = parts.raw.data();
  to.escapes = parts.escapes.data();
  level.split_symbols(indices.data(), n, groups.data(), to);
  parts.symbols.resize(static_cast<std::size_t>(to.streams[0] - parts.symbols.data()));
  parts.raw.resize(static_cast<std::size_t>(to.raw - parts.raw.data()));
  parts.escapes.resize(static_cast<std::size_t>(to.escapes - parts.escapes.data()));
  return parts;
}

DirectMerge merge_of(const Parts& parts, const std::vector<std::uint8_t>& symbols) {
  DirectMerge from;
  from.streams[0] = symbols.data();
  from.raw = parts.raw.data();
  from.escapes = parts.escapes.data();
  from.n_escapes = parts.escapes.size();
  return from;
}

void expect_same_symbols(const std::vector<std::int32_t>& indices, std::size_t n,
                         const std::vector<GroupCode>& groups) {
  const Parts first = split_symbols(*levels()[0], indices, n, groups);
  std::vector<std::uint8_t> symbols = first.symbols;
  EXPECT_EQ(static_cast<std::size_t>(std::count(symbols.begin(), symbols.end(), kSymbolEscape)),
            first.escapes.size());
  EXPECT_TRUE(std::all_of(symbols.begin(), symbols.end(), [](auto symbol) { return symbol < 32; }));
  symbols.resize(symbols.size() + kGroupSize);
  for (const DirectKernels* level : levels()) {
    const Parts other = split_symbols(*level, indices, n, groups);
    EXPECT_TRUE(other.symbols == first.symbols);
    EXPECT_TRUE(other.raw == first.raw);
    EXPECT_TRUE(other.escapes == first.escapes);
    std::vector<std::int32_t> back(indices.size(), 99);
    DirectMerge from = merge_of(first, symbols);
    EXPECT_TRUE(level->merge_symbols(back.data(), n, groups.data(), from));
    EXPECT_EQ(from.n_escapes, 0u);
    EXPECT_EQ(from.raw, first.raw.data() + first.raw.size());
    back.resize(n);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), indices.begin()));
    if (!first.escapes.empty()) {
      from = merge_of(first, symbols);
      --from.n_escapes;
      EXPECT_FALSE(level->merge_symbols(back.data(), n, groups.data(), from));
    }
  }
}

// Compares the whole groups among the values, decoded from lanes.
void expect_same_decoded_values(DType dtype, const Parts& parts, std::size_t n,
                                const std::vector<GroupCode>& groups, const ValueSteps& steps,
                                const std::vector<std::byte>& exact,
                                const std::vector<std::byte>& expected) {
  std::vector<std::uint8_t> places;
  for (const GroupCode& group : groups) {
    if (group.kind != GroupKind::kAllZero) {
      places.push_back(kFirstValuePlace + kSymbolCodes.of[group.scale_bin].table);
    }
  }
  std::vector<std::uint8_t> symbols = parts.symbols;
  RansSymbols to_index;
  to_index.values = {symbols.data(), symbols.size(), places.data(), 0};
  to_index.tables = kDirectValueTables;
  for (const unsigned n_sets : {1u, 2u, 4u}) {
    to_index.n_sets = n_sets;
    Scratch scratch;
    std::vector<std::byte> coded;
    append_rans_section(to_index, scratch, coded);
    const test::GuardedBytes copy(coded);
    const std::size_t n_bytes = n / kGroupSize * kGroupSize * bits_per_element(dtype) / 8;
    for (const DirectKernels* level : levels()) {
      RansReader reader;
      ASSERT_TRUE(
          reader.open(copy.bytes(), copy.bytes().data() + coded.size(), kDirectValueTables));
      std::vector<std::byte> values(n_bytes);
      DirectMerge from = merge_of(parts, symbols);
      from.exact = exact.data();
      ValueSteps of_level = steps;
      of_level.has_float_products =
          steps.row_steps == nullptr && level->has_float_products(steps.step);
      EXPECT_TRUE(level->decode_values(dtype, n / kGroupSize, groups.data(), of_level,
                                       reader.lanes(), reader.tables() + kFirstValuePlace, from,
                                       values.data()));
      EXPECT_TRUE(std::equal(values.begin(), values.end(), expected.begin()));
    }
  }
}

// merge_values gives the values that merge_symbols and dequantise give.
void expect_same_merged_values(DType dtype, const std::vector<std::int32_t>& indices, std::size_t n,
                               const std::vector<GroupCode>& groups, const ValueSteps& steps) {
  const Parts parts = split_symbols(*levels()[0], indices, n, groups);
  std::vector<std::uint8_t> symbols = parts.symbols;
  symbols.resize(symbols.size() + kGroupSize);
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  std::vector<std::byte> exact(n * value_bytes);
  Random random(n);
  for (std::byte& byte : exact) {
    byte = static_cast<std::byte>(random.next());
  }
  std::vector<std::byte> expected(n * value_bytes);
  levels()[0]->dequantise(dtype, indices.data(), n, steps, expected.data());
  const std::byte* next = exact.data();
  for (std::size_t i = 0; i < n; ++i) {
    if (indices[i] == kExact) {
      std::copy(next, next + value_bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(i * value_bytes));
      next += value_bytes;
    }
  }
  for (const DirectKernels* level : levels()) {
    std::vector<std::byte> values(n * value_bytes);
    DirectMerge from = merge_of(parts, symbols);
    from.exact = exact.data();
    EXPECT_TRUE(level->merge_values(dtype, n, groups.data(), steps, from, values.data()));
    EXPECT_EQ(from.n_escapes, 0u);
    EXPECT_TRUE(from.exact == next);
    EXPECT_TRUE(values == expected);
    if (!parts.escapes.empty()) {
      from = merge_of(parts, symbols);
      from.exact = exact.data();
      --from.n_escapes;
      EXPECT_FALSE(level->merge_values(dtype, n, groups.data(), steps, from, values.data()));
    }
  }
  expect_same_decoded_values(dtype, parts, n, groups, steps, exact, expected);
}

TEST(DirectSymbolsOfCodes, SplitAndMergeInEveryBin) {
  Random random(16);
  for (unsigned scale_bin = 1; scale_bin <= kMaxDirectBin; ++scale_bin) {
    for (const std::size_t n : {5u, 128u, 500u}) {
      SCOPED_TRACE(scale_bin);
      for (const double scale : {0.3, 5.0, 1e3, 1e6, 1e9}) {
        const auto indices = make_indices(n, scale, random);
        const GroupCode group{static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
        expect_same_symbols(indices, n, std::vector<GroupCode>(indices.size() / kGroupSize, group));
      }
    }
  }
}

class DirectSymbols : public testing::TestWithParam<DType> {};

TEST_P(DirectSymbols, ValuesOfEveryBin) {
  Random random(14);
  const std::vector<std::uint16_t> row_steps{0x3c00, 0x3b12, 0, 0x3d01, 0x3c00};
  for (unsigned scale_bin = 1; scale_bin <= kMaxDirectBin; ++scale_bin) {
    if (kSymbolCodes.of[scale_bin].low_bits > kMaxSafeLowBits) {
      continue;
    }
    for (const std::size_t n : {5u, 128u, 500u}) {
      SCOPED_TRACE(std::to_string(scale_bin) + ", " + std::to_string(n));
      for (const double scale : {0.3, 5.0, 1e3, 1e6}) {
        auto indices = make_indices(n, scale, random);
        std::fill_n(indices.begin(), n == 500 ? 128 : 0, 0);
        const GroupCode group{static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
        std::vector<GroupCode> groups(indices.size() / kGroupSize, group);
        groups[0].kind = n == 500 ? GroupKind::kAllZero : GroupKind::kValues;
        ValueSteps steps;
        steps.step = random.next() % 2 == 0 ? 1.7e-3 : 1e-40;
        expect_same_merged_values(GetParam(), indices, n, groups, steps);
        steps.row_steps = row_steps.data();
        steps.n_rows = 5;
        steps.row_values = 111;
        steps.first_value = 30;
        expect_same_merged_values(GetParam(), indices, n, groups, steps);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, DirectSymbols,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16, DType::kBF16));

// Turning values into symbols in one pass gives the results of the baseline's passes.
TEST_P(DirectSymbols, QuantiseInOnePass) {
  const DirectKernels& baseline = *levels()[0];
  const std::size_t value_bytes = bits_per_element(GetParam()) / 8;
  for (const Pattern pattern : kAllPatterns) {
    for (const std::size_t n : {1u, 127u, 2048u, 5000u}) {
      for (const double bound : {1e-20, 1e-4, 0.25, 7e4}) {
        SCOPED_TRACE(describe(GetParam(), pattern, n) + ", " + std::to_string(bound));
        const auto values = make_values(GetParam(), pattern, n);
        ValueSteps steps;
        steps.step = *step_of(bound);
        steps.bound = bound;
        std::vector<std::int32_t> indices((n + kGroupSize - 1) / kGroupSize * kGroupSize);
        std::vector<std::byte> decoded(values.size());
        const QuantisedTotals totals =
            baseline.quantise(GetParam(), values.data(), n, steps, indices.data(), decoded.data());
        std::vector<GroupCode> groups(indices.size() / kGroupSize);
        baseline.assign_bins(indices.data(), n, groups.data());
        const Parts parts = split_symbols(baseline, indices, n, groups);
        std::vector<std::byte> exact;
        for (std::size_t i = 0; i < n; ++i) {
          const auto at = values.begin() + static_cast<std::ptrdiff_t>(i * value_bytes);
          if (indices[i] == kExact) {
            exact.insert(exact.end(), at, at + static_cast<std::ptrdiff_t>(value_bytes));
          }
        }
        for (const DirectKernels* level : levels()) {
          Parts other{std::vector<std::uint8_t>(n + kGroupSize),
                      std::vector<std::byte>(4 * (n + kGroupSize)), std::vector<std::int32_t>(n)};
          std::vector<std::byte> other_exact(values.size());
          std::vector<std::byte> other_decoded(values.size());
          std::vector<GroupCode> other_groups(groups.size());
          DirectSplit to;
          to.streams[0] = other.symbols.data();
          to.raw = other.raw.data();
          to.escapes = other.escapes.data();
          to.exact = other_exact.data();
          const QuantisedTotals found = level->quantise_symbols(
              GetParam(), values.data(), n, steps, other_decoded.data(), other_groups.data(), to);
          other.symbols.resize(static_cast<std::size_t>(to.streams[0] - other.symbols.data()));
          other.raw.resize(static_cast<std::size_t>(to.raw - other.raw.data()));
          other.escapes.resize(static_cast<std::size_t>(to.escapes - other.escapes.data()));
          other_exact.resize(static_cast<std::size_t>(to.exact - other_exact.data()));
          EXPECT_TRUE(other.symbols == parts.symbols);
          EXPECT_TRUE(other.raw == parts.raw);
          EXPECT_TRUE(other.escapes == parts.escapes);
          EXPECT_TRUE(other_exact == exact);
          EXPECT_TRUE(other_decoded == decoded);
          EXPECT_TRUE(std::ranges::equal(groups, other_groups, [](auto a, auto b) {
            return a.scale_bin == b.scale_bin && a.kind == b.kind;
          }));
          EXPECT_EQ(found.n_zeros, totals.n_zeros);
          EXPECT_EQ(found.errors.n_exact, totals.errors.n_exact);
          EXPECT_EQ(found.errors.n_finite, totals.errors.n_finite);
          EXPECT_EQ(found.errors.max_error, totals.errors.max_error);
          EXPECT_EQ(found.errors.sum_of_squares, totals.errors.sum_of_squares);
        }
      }
    }
  }
}

// Products in floats where a level says that they are right.
TEST(DirectSymbolsOfCodes, FloatProducts) {
  Random random(15);
  unsigned n_right = 0;
  for (int i = 0; i < 500; ++i) {
    const double step = std::ldexp(1 + static_cast<double>(random.next() >> 11) * 0x1p-53,
                                   static_cast<int>(random.next() % 300) - 160);
    std::vector<std::int32_t> indices(kGroupSize);
    std::vector<std::uint8_t> symbols(kGroupSize);
    std::vector<std::byte> raw(3 * kGroupSize / 8);
    for (std::byte& byte : raw) {
      byte = static_cast<std::byte>(random.next());
    }
    for (std::uint8_t& symbol : symbols) {
      symbol = static_cast<std::uint8_t>(random.next() % 31);
    }
    const GroupCode group{kFirstWithLowBits + 8, 0, GroupKind::kValues};  // three low bits
    DirectMerge from;
    from.streams[0] = symbols.data();
    from.raw = raw.data();
    ASSERT_TRUE(levels()[0]->merge_symbols(indices.data(), kGroupSize, &group, from));
    ValueSteps steps;
    steps.step = step;
    std::vector<std::byte> expected(4 * kGroupSize);
    levels()[0]->dequantise(DType::kF32, indices.data(), kGroupSize, steps, expected.data());
    for (const DirectKernels* level : levels()) {
      steps.has_float_products = level->has_float_products(step);
      n_right += steps.has_float_products ? 1 : 0;
      from.streams[0] = symbols.data();
      from.raw = raw.data();
      std::vector<std::byte> values(4 * kGroupSize);
      ASSERT_TRUE(level->merge_values(DType::kF32, kGroupSize, &group, steps, from, values.data()));
      ASSERT_TRUE(values == expected) << step;
    }
  }
  // All products are right, except at the ends of the range of floats, where a level has them.
  EXPECT_TRUE(levels().size() == 1 || n_right > 300);
}

}  // namespace
}  // namespace cfck::codec
