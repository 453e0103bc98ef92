// Tables of the entropy stage rans: those of the page, those of the file, explicit ones, and the
// cost of symbols with them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "tests/codec/entropy/rans_tables.hpp"

namespace cfck::codec {
namespace {

std::vector<Frequencies> all_tables() {
  std::vector<Frequencies> all = extreme_tables();
  for (unsigned number = 0; number < kStaticTables; ++number) {
    all.push_back(static_frequencies(number));
  }
  return all;
}

// The content of a slot for a decoder.
struct Slot {
  unsigned symbol;
  unsigned frequency;
  unsigned rank;
};

Slot slot_of(const RansDecodeTable& table, std::uint32_t slot) {
  const std::uint32_t bucket = slot / kRansBucket;
  const std::uint32_t entry = table.entry[bucket + (slot >= table.limit[bucket] ? 32 : 0)];
  return {entry_symbol(entry), entry_frequency(entry),
          slot + static_cast<std::uint32_t>(entry_bias(entry))};
}

// Section 3 of the page, implemented literally.
struct Buckets {
  std::array<unsigned, kRansSymbols> own;
  std::array<unsigned, kRansSymbols> alias{};

  explicit Buckets(const Frequencies& frequencies) {
    std::array<unsigned, kRansSymbols> left;
    std::copy(frequencies.begin(), frequencies.end(), left.begin());
    std::array<bool, kRansSymbols> is_closed{};
    own.fill(kRansBucket);
    for (unsigned a = 0; a < kRansSymbols;) {
      if (is_closed[a] || left[a] >= kRansBucket) {
        ++a;
        continue;
      }
      unsigned b = 0;
      while (left[b] <= kRansBucket) {
        ++b;
      }
      own[a] = left[a];
      alias[a] = b;
      left[b] -= kRansBucket - left[a];
      is_closed[a] = true;
      a = 0;
    }
  }
};

TEST(RansTables, EverySlotIsThatOfThePage) {
  for (const Frequencies& frequencies : all_tables()) {
    const Buckets buckets(frequencies);
    RansDecodeTable decode;
    RansEncodeTable encode;
    build_decode_table(frequencies, decode);
    build_encode_table(frequencies, encode);
    std::array<unsigned, kRansSymbols> met{};
    for (std::uint32_t slot = 0; slot < kRansTotal; ++slot) {
      const unsigned bucket = slot / kRansBucket;
      const unsigned symbol =
          slot % kRansBucket < buckets.own[bucket] ? bucket : buckets.alias[bucket];
      const Slot found = slot_of(decode, slot);
      ASSERT_EQ(found.symbol, symbol);
      ASSERT_EQ(found.frequency, frequencies[symbol]);
      ASSERT_EQ(found.rank, met[symbol]);  // so that ranks are 0 … frequency - 1, once each
      ASSERT_EQ(encode.frequencies[symbol] % kRansTotal, frequencies[symbol] % kRansTotal);
      ASSERT_EQ(encode.slots[encode.starts[symbol] + met[symbol]], slot);
      ++met[symbol];
    }
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      ASSERT_EQ(met[s], frequencies[s]);
    }
  }
}

TEST(RansTables, StaticOnesAreThoseOfTheFile) {
  std::ifstream file(CFCK_FREQUENCY_TABLES);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  std::set<std::string> names;
  unsigned number = 0;
  for (; std::getline(file, line); ++number) {
    ASSERT_LT(number, kStaticTables);
    std::istringstream fields(line);
    std::string name, field;
    std::getline(fields, name, ',');
    EXPECT_TRUE(names.insert(name).second) << name;
    const Frequencies& frequencies = static_frequencies(number);
    EXPECT_EQ(std::accumulate(frequencies.begin(), frequencies.end(), 0u), kRansTotal) << name;
    for (const unsigned frequency : frequencies) {
      ASSERT_TRUE(std::getline(fields, field, ','));
      EXPECT_EQ(std::stoul(field), frequency) << name;
    }
    EXPECT_FALSE(std::getline(fields, field, ','));
  }
  EXPECT_EQ(number, kStaticTables);
  // The numbers that code uses are those of the rows with these names.
  std::vector<std::string> rows;
  file.clear();
  file.seekg(0);
  while (std::getline(file, line)) {
    rows.push_back(line.substr(0, line.find(',')));
  }
  const auto name_of = [&](unsigned table) { return rows.at(1 + table); };
  EXPECT_EQ(name_of(value_table(3, kLosslessValueTables, 2)), "family 3 lossless phase 2");
  EXPECT_EQ(name_of(value_table(0, kDirectValueTables, 0)), "family 0 direct bin 1");
  EXPECT_EQ(name_of(value_table(7, kDirectValueTables, 34)), "family 7 direct bin 35");
  EXPECT_EQ(name_of(value_table(6, kDirectValueTables, 38)), "family 6 direct phase 3");
  EXPECT_EQ(name_of(bin_table(5)), "bins 5");
  EXPECT_EQ(name_of(trailing_zero_table(3)), "trailing zero bits 3");
}

TEST(RansCost, IsTheLogarithmRoundedUp) {
  for (unsigned frequency = 1; frequency <= kRansTotal; ++frequency) {
    const long double exact = 65536 * (12 - std::log2(static_cast<long double>(frequency)));
    EXPECT_GE(symbol_cost(frequency), exact - 1e-9L) << frequency;
    EXPECT_LT(symbol_cost(frequency), exact + 1.001L) << frequency;
  }
  EXPECT_EQ(symbol_cost(kRansTotal), 0u);
  EXPECT_EQ(symbol_cost(1), 12 * kBitCost);
  EXPECT_EQ(symbol_cost(256), 4 * kBitCost);
  SymbolCounts counts{};
  Frequencies frequencies{};
  counts[3] = 10;
  counts[30] = 1u << 31;
  frequencies[3] = 4032;
  frequencies[30] = 64;
  EXPECT_EQ(coded_cost(counts, frequencies),
            10 * std::uint64_t{symbol_cost(4032)} + (std::uint64_t{6} << 47));
}

TEST(RansCost, FittedTablesAreNearTheEntropy) {
  std::mt19937 random(11);
  for (unsigned n = 0; n < 200; ++n) {
    SymbolCounts counts{};
    for (unsigned i = 0; i < 1 + n % 32; ++i) {
      counts[random() % kRansSymbols] += 1 + random() % (n % 3 == 0 ? 5 : 100000);
    }
    Frequencies used;
    used.fill(1);
    if (n % 2 == 0) {  // symbols that cannot occur have none
      for (unsigned s = 0; s < kRansSymbols; ++s) {
        used[s] = counts[s] != 0 || s % 3 == 0 ? 1 : 0;
      }
    }
    const Frequencies fitted = fitted_frequencies(counts, used);
    EXPECT_EQ(std::accumulate(fitted.begin(), fitted.end(), 0u), kRansTotal);
    const long double total = std::accumulate(counts.begin(), counts.end(), 0.0L);
    long double entropy = 0;
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      EXPECT_EQ(fitted[s] != 0, used[s] != 0);
      if (counts[s] != 0) {
        entropy -= counts[s] * std::log2(counts[s] / total);
      }
    }
    const auto bits = static_cast<long double>(coded_cost(counts, fitted)) / kBitCost;
    EXPECT_GE(bits, entropy - 1e-6L);
    EXPECT_LE(bits, entropy + 0.013L * total);  // 32 of 4096 for symbols that are rare or absent
  }
}

std::vector<std::byte> table_bytes(const Frequencies& frequencies) {
  std::vector<std::byte> bytes;
  std::uint64_t bits = 0;
  unsigned n_bits = 0;
  const auto put = [&](std::uint64_t value, unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      bits |= (value >> i & 1) << n_bits;
      if (++n_bits == 8) {
        bytes.push_back(static_cast<std::byte>(bits));
        bits = n_bits = 0;
      }
    }
  };
  std::array<unsigned, kRansSymbols - 1> lengths{};
  for (unsigned s = 0; s < lengths.size(); ++s) {
    while (frequencies[s] >> lengths[s] != 0) {
      ++lengths[s];
    }
    put(lengths[s], 4);
  }
  for (unsigned s = 0; s < lengths.size(); ++s) {
    put(frequencies[s], lengths[s] == 0 ? 0 : lengths[s] - 1);  // without its first bit
  }
  put(0, (8 - n_bits) % 8);
  return bytes;
}

TEST(ExplicitTables, AreReadAsTheyAreWritten) {
  for (const Frequencies& frequencies : all_tables()) {
    const std::vector<std::byte> bytes = table_bytes(frequencies);
    EXPECT_EQ(table_bits(frequencies), 8 * bytes.size());
    std::size_t at = 0;
    const auto read = read_frequencies(bytes, at);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(*read, frequencies);
    EXPECT_EQ(at, bytes.size());
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      at = 0;
      EXPECT_FALSE(read_frequencies(ByteView(bytes).first(n), at)) << n;
    }
  }
}

TEST(ExplicitTables, WrongOnesAreRefused) {
  const auto is_read = [](const std::vector<std::byte>& bytes) {
    std::size_t at = 0;
    return read_frequencies(bytes, at).has_value();
  };
  Frequencies frequencies{};
  frequencies[0] = 4096;
  EXPECT_TRUE(is_read(table_bytes(frequencies)));
  frequencies[30] = 1;
  EXPECT_FALSE(is_read(table_bytes(frequencies)));  // the sum is 4097
  frequencies = {};
  frequencies[7] = 4097;
  EXPECT_FALSE(is_read(table_bytes(frequencies)));
  frequencies[7] = 1 << 14;
  EXPECT_FALSE(is_read(table_bytes(frequencies)));
  frequencies.fill(kRansBucket);
  std::vector<std::byte> bytes = table_bytes(frequencies);  // 31 * 11 bits
  for (unsigned bit = 5; bit < 8; ++bit) {
    bytes.back() |= static_cast<std::byte>(1u << bit);
    EXPECT_FALSE(is_read(bytes));
    bytes.back() = std::byte{0};
  }
}

}  // namespace
}  // namespace cfck::codec
