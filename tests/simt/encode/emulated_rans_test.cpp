// The entropy stage `rans`, encoded by the kernels of a device on the emulator, against the encoder
// of the CPU: quotients, tables, words, states, and whole sections.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "codec/common/bit_strings.hpp"
#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/entropy/rans/tables/cost.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::codec {
namespace {

// The number of states of a frequency at the edges of its quotients that are divided wrongly.
std::uint64_t wrong_quotients(std::uint32_t frequency) {
  const unsigned shift = inverse_shift(frequency);
  const std::uint32_t inverse = inverse_of(frequency, shift);
  std::uint64_t n_wrong = 0;
  for (std::uint32_t q = 0; q < 1u << 19; ++q) {
    const std::uint32_t first = q * frequency;
    const std::uint32_t last = first + frequency - 1;
    n_wrong += quotient_of(first, inverse, shift) != q ? 1 : 0;
    n_wrong += quotient_of(last, inverse, shift) != q ? 1 : 0;
  }
  return n_wrong;
}

// The quotients of all states that an encoder divides: they change at multiples of the frequency
// alone, so that those between need no look.
TEST(EmulatedEncodeRans, QuotientsOfEveryFrequency) {
  for (std::uint32_t frequency = 1; frequency <= kRansTotal; ++frequency) {
    ASSERT_EQ(wrong_quotients(frequency), 0U) << frequency;
  }
}

std::vector<Frequencies> some_frequencies() {
  std::vector<Frequencies> all;
  for (unsigned i = 0; i < kStaticTables; ++i) {
    all.push_back(static_frequencies(i));
  }
  Random random(3);
  for (unsigned i = 0; i < 40; ++i) {
    Frequencies f{};
    std::uint32_t left = kRansTotal;
    // One symbol alone, few, and many, some without a slot.
    for (unsigned s = 0; s + 1 < kRansSymbols && i % 8 != 0; ++s) {
      const std::uint32_t most = i % 8 < 3 ? left : 4 * kRansTotal / kRansSymbols;
      f[s] = static_cast<std::uint16_t>(random.next() % 3 == 0 ? 0 : random.next() % (most + 1));
      f[s] = static_cast<std::uint16_t>(std::min<std::uint32_t>(f[s], left));
      left -= f[s];
    }
    f[i % kRansSymbols] = static_cast<std::uint16_t>(f[i % kRansSymbols] + left);
    all.push_back(f);
  }
  return all;
}

DeviceEncodeTable emulated_table(const Frequencies& frequencies, simt::LaneOrder order) {
  RansDecodeTable decode;
  build_decode_table(frequencies, decode);
  DeviceTable from;
  fill_device_table(decode, from);
  DeviceEncodeTable table;
  std::memset(&table, 0xee, sizeof(table));
  simt::Launch launch;
  launch.order = order;
  simt::emulate(launch, 0, [&](void*) { build_device_encode_table(from, table); });
  return table;
}

TEST(EmulatedEncodeRans, TablesAreThoseOfTheCpu) {
  for (const Frequencies& frequencies : some_frequencies()) {
    RansEncodeTable expected;
    build_encode_table(frequencies, expected);
    const DeviceEncodeTable table = emulated_table(frequencies, simt::LaneOrder::kAscending);
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      const std::uint32_t entry = table.symbols[s].entry;
      ASSERT_EQ(encode_frequency(entry), frequencies[s]);
      for (std::uint32_t rank = 0; rank < frequencies[s]; ++rank) {
        ASSERT_EQ(table.slots[encode_start(entry) + rank],
                  expected.slots[expected.starts[s] + rank])
            << s << ", rank " << rank;
      }
    }
  }
}

// Symbols that the tables of their groups have, about as often as they say.
struct Symbols {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> places;

  Symbols(std::size_t n, const std::vector<const Frequencies*>& tables, std::uint64_t seed) {
    Random random(seed);
    const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
    symbols.resize(n_groups * kGroupSize);
    for (std::size_t g = 0; g < n_groups; ++g) {
      places.push_back(static_cast<std::uint8_t>(random.next() % tables.size()));
      const Frequencies& of = *tables[places.back()];
      for (std::size_t i = 0; i < kGroupSize; ++i) {
        auto slot = static_cast<std::uint32_t>(random.next() >> 40) % kRansTotal;
        std::uint8_t s = 0;
        for (; slot >= of[s]; ++s) {
          slot -= of[s];
        }
        symbols[g * kGroupSize + i] = s;
      }
    }
  }
};

// What the lanes of a device write for these runs: the section behind the tables.
template <unsigned n_sets>
std::vector<std::byte> emulated_lanes(const DeviceSymbolRun& bins, const DeviceSymbolGroups& values,
                                      const std::vector<DeviceEncodeTable>& tables, ByteView tail,
                                      simt::LaneOrder order) {
  struct Shared {
    StateStrings<n_sets> strings;
  };
  const std::size_t n_symbols = bins.n_symbols + values.n_symbols + 2 * kGroupSize;
  std::vector<std::uint16_t> words(n_sets * n_symbols);
  std::vector<std::byte> section(2 * words.size() + 1024 * n_sets);
  std::uint32_t n_bytes = 0;
  simt::Launch launch;
  launch.order = order;
  std::vector<std::uint32_t> states(n_sets * simt::kWarpLanes);
  std::vector<std::uint32_t> n_words(n_sets);
  simt::emulate<Shared>(launch, [&](Shared& shared) {
    constexpr unsigned kOwn = n_sets == 1 ? 1 : 2;
    for (unsigned first = 0; first < n_sets; first += kOwn) {
      DeviceEncodeLanes<kOwn, n_sets> lanes;
      lanes.room = static_cast<std::uint32_t>(n_symbols);
      lanes.first_set = first;
      for (unsigned set = 0; set < kOwn; ++set) {
        lanes.ends[set] = words.data() + (first + set + 1) * n_symbols;
      }
      start_lanes(lanes, reinterpret_cast<const std::uint8_t*>(tail.data()),
                  static_cast<std::uint32_t>(tail.size()));
      encode_groups(lanes, values,
                    [&](unsigned place) -> const DeviceEncodeTable& { return tables[place]; });
      encode_run(lanes, bins, tables[kBinPlace]);
      EXPECT_FALSE(lanes.is_too_long);
      for (unsigned set = 0; set < kOwn; ++set) {
        states[(first + set) * simt::kWarpLanes + simt::lane()] = lanes.state[set];
        n_words[first + set] = lanes.n_words[set];
      }
    }
    simt::sync_warp();
    auto* const to = reinterpret_cast<std::uint8_t*>(section.data());
    n_bytes = write_states(states.data(), n_words.data(), shared.strings, to);
    for (unsigned set = 0; set < n_sets; ++set) {
      const std::uint16_t* const end = words.data() + (set + 1) * n_symbols;
      copy_bytes(reinterpret_cast<const std::uint8_t*>(end - n_words[set]), 2 * n_words[set],
                 to + n_bytes);
      n_bytes += 2 * n_words[set];
    }
  });
  section.resize(n_bytes);
  return section;
}

std::vector<std::byte> emulated_lanes(unsigned n_sets, const DeviceSymbolRun& bins,
                                      const DeviceSymbolGroups& values,
                                      const std::vector<DeviceEncodeTable>& tables, ByteView tail,
                                      simt::LaneOrder order) {
  return n_sets == 1   ? emulated_lanes<1>(bins, values, tables, tail, order)
         : n_sets == 2 ? emulated_lanes<2>(bins, values, tables, tail, order)
                       : emulated_lanes<4>(bins, values, tables, tail, order);
}

// Symbols of whole groups in the words of DeviceSymbolGroups.
std::vector<std::uint32_t> words_of(const std::vector<std::uint8_t>& symbols) {
  std::vector<std::uint32_t> words(symbols.size() / 4);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::size_t in_group = i % kGroupSize;
    words[i / kGroupSize * simt::kWarpLanes + in_group % simt::kWarpLanes] |=
        std::uint32_t{symbols[i]} << (8 * (in_group / simt::kWarpLanes));
  }
  return words;
}

// The tables that the CPU has chosen, by place, and where they end in the section.
struct ChosenTables {
  std::vector<DeviceEncodeTable> tables;
  std::size_t end = 2;

  ChosenTables(ByteView section, unsigned n_places) {
    const auto layout = std::to_integer<unsigned>(section[0]);
    const auto choice = std::to_integer<unsigned>(section[1]);
    const TableChoice chosen{choice & 7, choice >> 3 & 7, choice >> 6};
    std::vector<Frequencies> frequencies;
    for (unsigned place = 0; place < n_places; ++place) {
      frequencies.push_back(static_frequencies(chosen.table_of(place, kLosslessValueTables)));
    }
    if ((layout & kLayoutExplicit) != 0) {
      const auto n = std::to_integer<unsigned>(section[end++]);
      for (unsigned i = 0; i < n; ++i) {
        take_explicit(section, frequencies);
      }
    }
    for (const Frequencies& of : frequencies) {
      tables.push_back(emulated_table(of, simt::LaneOrder::kShuffled));
    }
  }

 private:
  void take_explicit(ByteView section, std::vector<Frequencies>& all) {
    Frequencies& f = all.at(std::to_integer<unsigned>(section[end++]));
    BitReader bits(section.subspan(end));
    unsigned n_bits = kRansLengthBits * (kRansSymbols - 1);
    std::array<unsigned, kRansSymbols - 1> lengths{};
    for (unsigned& length : lengths) {
      length = bits.take(kRansLengthBits);
    }
    std::uint32_t left = kRansTotal;
    for (unsigned s = 0; s + 1 < kRansSymbols; ++s) {
      const unsigned n = lengths[s];
      f[s] = static_cast<std::uint16_t>(n == 0 ? 0 : (1u << (n - 1)) | bits.take(n - 1));
      n_bits += n == 0 ? 0 : n - 1;
      left -= f[s];
    }
    f[kRansSymbols - 1] = static_cast<std::uint16_t>(left);
    end += (n_bits + 7) / 8;
  }
};

// Layout, choice and tables as a device writes them for these counts.
std::vector<std::byte> emulated_tables(const std::vector<std::uint32_t>& counts, unsigned n_sets,
                                       simt::LaneOrder order, unsigned n_warps) {
  struct Shared {
    FrequencyStrings strings;
    std::uint64_t costs[kStaticChoices];
    std::uint64_t saved[kFirstValuePlace + kLosslessTables];
  };
  std::vector<std::uint16_t> known;
  for (unsigned i = 0; i < kStaticTables; ++i) {
    const Frequencies& of = static_frequencies(i);
    known.insert(known.end(), of.begin(), of.end());
  }
  const DeviceChoiceTables tables{symbol_costs().data(), known.data()};
  std::vector<std::uint16_t> frequencies(counts.size());
  std::vector<std::byte> bytes(64 * counts.size());
  std::uint32_t n_bytes = 0;
  simt::Launch launch;
  launch.order = order;
  launch.warps_per_block = n_warps;
  simt::emulate<Shared>(launch, [&](Shared& shared) {
    const DeviceChoiceShared choice{counts.data(), frequencies.data(), shared.costs, shared.saved,
                                    kLosslessValueTables};
    const DeviceTableChoice chosen = choose_device_tables(choice, tables, n_warps);
    if (simt::warp_of_block() == n_warps - 1) {
      n_bytes = write_device_tables(choice, chosen, n_sets, shared.strings,
                                    reinterpret_cast<std::uint8_t*>(bytes.data()));
    }
  });
  bytes.resize(n_bytes);
  return bytes;
}

void count(const Symbols& of, std::size_t n, unsigned first_place, std::size_t step,
           std::vector<std::uint32_t>& counts) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t g = i / kGroupSize;
    if (g % step == 0) {
      counts[(first_place + of.places[g]) * kRansSymbols + of.symbols[i]] +=
          static_cast<std::uint32_t>(step);
    }
  }
}

// Compares a section of the CPU with that of a device: the tables, and what the lanes write with
// them. Symbols are those of `family`, where `most` is below 32 with none above it.
void expect_same_section(unsigned n_sets, std::size_t n_values, unsigned family, unsigned most,
                         simt::LaneOrder order) {
  std::vector<const Frequencies*> of_values;
  for (unsigned i = 0; i < kLosslessTables; ++i) {
    of_values.push_back(&static_frequencies(value_table(family, kLosslessValueTables, i)));
  }
  Symbols values(n_values, of_values, n_values + family);
  for (std::uint8_t& symbol : values.symbols) {
    symbol = static_cast<std::uint8_t>(std::min<unsigned>(symbol, most));
  }
  const std::size_t n_bins = values.places.size();
  Symbols bins(n_bins, {&static_frequencies(bin_table(family))}, 2);
  std::vector<std::uint32_t> counts((kFirstValuePlace + kLosslessTables) * kRansSymbols);
  count(bins, n_bins, kBinPlace, 1, counts);
  count(values, n_values, kFirstValuePlace, n_sets == kMaxLaneSets ? 8 : 1, counts);
  for (std::uint8_t& place : values.places) {
    place = static_cast<std::uint8_t>(place + kFirstValuePlace);
  }
  std::vector<std::byte> tail = make_values(DType::kU8, Pattern::kRandomBits, 60 * n_sets);
  tail.resize(tail.size() - family);

  RansSymbols symbols;
  symbols.bins = {bins.symbols.data(), n_bins, nullptr, kBinPlace};
  symbols.values = {values.symbols.data(), n_values, values.places.data(), 0};
  symbols.tables = kLosslessValueTables;
  symbols.n_sets = n_sets;
  symbols.tail = tail;
  Scratch scratch;
  std::vector<std::byte> expected;
  append_rans_section(symbols, scratch, expected);

  const ChosenTables chosen(expected, kFirstValuePlace + kLosslessTables);
  const std::vector<std::byte> tables = emulated_tables(counts, n_sets, order, 1 + n_values % 8);
  EXPECT_TRUE(std::ranges::equal(tables, ByteView(expected).first(chosen.end)));
  const std::vector<std::uint32_t> words = words_of(values.symbols);
  const std::vector<std::byte> found =
      emulated_lanes(n_sets, {bins.symbols.data(), static_cast<std::uint32_t>(n_bins)},
                     {words.data(), static_cast<std::uint32_t>(n_values), values.places.data()},
                     chosen.tables, tail, order);
  EXPECT_TRUE(std::ranges::equal(found, ByteView(expected).subspan(chosen.end)))
      << found.size() << " bytes";
}

class EmulatedEncodeRansSections : public ::testing::TestWithParam<unsigned> {};

TEST_P(EmulatedEncodeRansSections, AreThoseOfTheCpu) {
  constexpr simt::LaneOrder kOrders[] = {simt::LaneOrder::kAscending, simt::LaneOrder::kDescending,
                                         simt::LaneOrder::kShuffled};
  const unsigned n_sets = GetParam();
  unsigned i = 0;
  for (const std::size_t n :
       {0, 1, 31, 32, 33, 63, 65, 127, 128, 129, 255, 257, 1000, 4095, 8193, 20011}) {
    SCOPED_TRACE(testing::Message() << n << " values");
    expect_same_section(n_sets, n, i % kRansFamilies, 31, kOrders[i % 3]);
    expect_same_section(n_sets, n, (i + 3) % kRansFamilies, i % 5, kOrders[(i + 1) % 3]);
    ++i;
  }
}

INSTANTIATE_TEST_SUITE_P(OfLaneSets, EmulatedEncodeRansSections, ::testing::Values(1u, 2u, 4u));

}  // namespace
}  // namespace cfck::codec
