// Symbols with two tables each, chosen by a trellis: every CPU level against scalar code.
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/entropy/rans/kernels/scalar.hpp"
#include "tests/codec/entropy/rans_tables.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

struct Sample {
  const Trellis* trellis = nullptr;
  unsigned n_sets = 1;
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> choices;
  std::vector<std::uint8_t> places;
  std::vector<std::byte> parity_bits;  // of the groups with odd places
  std::vector<std::uint8_t> last_trellis_states;
  std::vector<std::uint32_t> first_states;
  std::vector<std::uint32_t> states;
  std::vector<std::vector<std::uint16_t>> words;

  unsigned n_lanes() const { return n_sets * kRansLanes; }
};

// Pairs of neighbours, the last with the first; every other one has parity bits.
template <class Table>
std::vector<RansTablePair<Table>> pairs_of(const std::vector<Table>& tables) {
  std::vector<RansTablePair<Table>> pairs;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    pairs.push_back({{&tables[i], &tables[(i + 1) % tables.size()]}, i % 2 == 1});
  }
  return pairs;
}

void draw_symbols(Sample& sample, const Tables& tables, std::size_t n, std::mt19937& random) {
  const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
  for (std::size_t i = 0; i < n_groups; ++i) {
    sample.places.push_back(static_cast<std::uint8_t>(random() % tables.frequencies.size()));
  }
  std::vector<unsigned> states(sample.n_lanes());
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t place = sample.places[i / kGroupSize];
    unsigned& state = states[i % kGroupSize % sample.n_lanes()];
    const unsigned choice = sample.trellis->table(state);
    const Frequencies& frequencies =
        tables.frequencies[(place + choice) % tables.frequencies.size()];
    unsigned slot = random() % kRansTotal;
    std::uint8_t symbol = 0;
    while (slot >= frequencies[symbol]) {
      slot -= frequencies[symbol++];
    }
    sample.symbols.push_back(symbol);
    sample.choices.push_back(static_cast<std::uint8_t>(choice));
    unsigned path = symbol & 1;
    if (place % 2 == 1) {
      if (i % 8 == 0) {
        sample.parity_bits.push_back(static_cast<std::byte>(random()));
      }
      path = static_cast<unsigned>(sample.parity_bits.back()) >> (i % 8) & 1;
    }
    state = sample.trellis->next[state][path];
  }
  sample.last_trellis_states.assign(states.begin(), states.end());
}

using Encode = void(const SymbolRun&, const std::uint8_t*, const RansTablePair<RansEncodeTable>*,
                    unsigned, std::uint32_t*, std::uint16_t**);

void encode_sample(Sample& sample, const Tables& tables, Encode& encode) {
  const std::size_t room = sample.symbols.size() + 32;
  std::vector<std::vector<std::uint16_t>> memory(sample.n_sets);
  std::uint16_t* ends[kMaxLaneSets];
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    memory[set].resize(room);
    ends[set] = memory[set].data() + room;
  }
  sample.states = sample.first_states;
  const SymbolRun run{sample.symbols.data(), sample.symbols.size(), sample.places.data(), 0};
  encode(run, sample.choices.data(), pairs_of(tables.encode).data(), sample.n_sets,
         sample.states.data(), ends);
  sample.words.clear();
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    sample.words.emplace_back(static_cast<const std::uint16_t*>(ends[set]),
                              static_cast<const std::uint16_t*>(memory[set].data() + room));
  }
}

Sample make_sample(const Trellis& trellis, const Tables& tables, unsigned n_sets, std::size_t n,
                   unsigned seed) {
  Sample sample;
  sample.trellis = &trellis;
  sample.n_sets = n_sets;
  std::mt19937 random(seed);
  draw_symbols(sample, tables, n, random);
  for (unsigned lane = 0; lane < sample.n_lanes(); ++lane) {
    sample.first_states.push_back(kRansLowest + random() % kRansLowest);
  }
  encode_sample(sample, tables, *rans_kernels_of(CpuLevel::kBaseline).encode_chosen);
  return sample;
}

// Returns whether words suffice; if so, checks that decoding restores everything.
bool decode_sample(const Sample& sample, const Tables& tables, const RansKernels& kernels) {
  std::vector<std::byte> bytes;
  RansLanes lanes;
  std::size_t places[kMaxLaneSets];
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    places[set] = bytes.size();
    const auto some = std::as_bytes(std::span(sample.words[set]));
    bytes.insert(bytes.end(), some.begin(), some.end());
  }
  const test::GuardedBytes memory(bytes);
  lanes.n_sets = sample.n_sets;
  lanes.readable_end = memory.data() + memory.size();
  std::copy(sample.states.begin(), sample.states.end(), lanes.states);
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    lanes.words[set] = memory.data() + places[set];
    lanes.ends[set] = lanes.words[set] + 2 * sample.words[set].size();
  }
  const test::GuardedBytes parity_bits(sample.parity_bits);
  std::vector<std::uint8_t> symbols(sample.places.size() * kGroupSize);
  std::vector<std::uint8_t> trellis_states(sample.n_lanes());
  const SymbolRun run{symbols.data(), sample.symbols.size(), sample.places.data(), 0};
  if (!kernels.decode_chosen(lanes, pairs_of(tables.decode).data(), *sample.trellis,
                             trellis_states.data(), run, parity_bits.data())) {
    return false;
  }
  symbols.resize(sample.symbols.size());
  EXPECT_TRUE(symbols == sample.symbols);
  EXPECT_TRUE(trellis_states == sample.last_trellis_states);
  EXPECT_TRUE(std::equal(sample.first_states.begin(), sample.first_states.end(), lanes.states));
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    EXPECT_EQ(lanes.words[set], lanes.ends[set]);
  }
  return true;
}

// Calls body(trellis, n_sets).
template <class Body>
void each_trellis(Body&& body) {
  for (const Trellis* trellis : {&kTrellis4, &kTrellis8, &kTrellis64}) {
    for (const unsigned n_sets : kLaneSets) {
      SCOPED_TRACE(std::to_string(trellis->n_states) + " states, sets " + std::to_string(n_sets));
      body(*trellis, n_sets);
    }
  }
}

TEST(RansTrellis, RoundTrips) {
  const Tables all_tables[] = {Tables(ordinary_tables()), Tables(extreme_tables())};
  each_trellis([&](const Trellis& trellis, unsigned n_sets) {
    for (const Tables& tables : all_tables) {
      for (const std::size_t n : {1, 33, 127, 128, 129, 1000, 20000}) {
        const Sample sample = make_sample(trellis, tables, n_sets, n, static_cast<unsigned>(n));
        each_level([&](const RansKernels& kernels) {
          Sample coded = sample;
          encode_sample(coded, tables, *kernels.encode_chosen);
          EXPECT_TRUE(coded.words == sample.words);
          EXPECT_TRUE(coded.states == sample.states);
          EXPECT_TRUE(decode_sample(sample, tables, kernels));
        });
      }
    }
  });
}

TEST(RansTrellis, WordsThatRunOut) {
  const Tables tables(ordinary_tables());
  each_trellis([&](const Trellis& trellis, unsigned n_sets) {
    const Sample sample = make_sample(trellis, tables, n_sets, 3000, 1);
    for (unsigned set = 0; set < n_sets; ++set) {
      for (std::size_t cut = 1; cut < 70; ++cut) {
        Sample less = sample;
        less.words[set].resize(less.words[set].size() - cut);
        each_level([&](const RansKernels& kernels) {
          EXPECT_FALSE(decode_sample(less, tables, kernels));
        });
      }
    }
  });
}

// Returns the bytes of each group that has parity bits, or nullptr.
std::vector<const std::byte*> paths_of(const Sample& sample) {
  std::vector<const std::byte*> paths;
  const std::byte* next = sample.parity_bits.data();
  for (const std::uint8_t place : sample.places) {
    paths.push_back(place % 2 == 1 ? next : nullptr);
    next += place % 2 == 1 ? kGroupSize / 8 : 0;
  }
  return paths;
}

// Groups of 128 symbols and one shorter; lanes start again with each group's first symbol.
TEST(RansTrellis, StreamsOfTwoTables) {
  const Tables tables(ordinary_tables());
  each_trellis([&](const Trellis& trellis, unsigned n_sets) {
    const Sample sample = make_sample(trellis, tables, n_sets, 1000, 9);
    const std::vector<const std::byte*> paths = paths_of(sample);
    const std::size_t n = sample.symbols.size();
    std::vector<std::uint8_t> states(sample.n_lanes());
    std::vector<std::uint8_t> choices(n);
    for (std::size_t first = 0; first < n; first += kGroupSize) {
      const std::size_t some = std::min<std::size_t>(kGroupSize, n - first);
      choose_tables(trellis, sample.symbols.data() + first, paths[first / kGroupSize], some,
                    sample.n_lanes(), states.data(), choices.data() + first);
    }
    EXPECT_TRUE(choices == sample.choices);
    EXPECT_TRUE(states == sample.last_trellis_states);

    std::vector<std::uint8_t> memory[2];
    for (std::size_t i = 0; i < n; ++i) {
      memory[choices[i]].push_back(sample.symbols[i]);
    }
    const std::uint8_t* from[2] = {memory[0].data(), memory[1].data()};
    const std::uint8_t* const ends[2] = {from[0] + memory[0].size(), from[1] + memory[1].size()};
    std::vector<std::uint8_t> merged(n);
    std::fill(states.begin(), states.end(), std::uint8_t{0});
    for (std::size_t first = 0; first < n; first += kGroupSize) {
      const std::size_t some = std::min<std::size_t>(kGroupSize, n - first);
      ASSERT_TRUE(merge_chosen(trellis, from, ends, paths[first / kGroupSize], some,
                               sample.n_lanes(), states.data(), merged.data() + first));
    }
    EXPECT_TRUE(merged == sample.symbols);
    // Nothing is left: one more step fails in one stream or the other.
    EXPECT_TRUE(from[0] == ends[0] && from[1] == ends[1]);
    EXPECT_FALSE(merge_chosen(trellis, from, ends, nullptr, 1, sample.n_lanes(), states.data(),
                              merged.data()));
  });
}

}  // namespace
}  // namespace cfck::codec
