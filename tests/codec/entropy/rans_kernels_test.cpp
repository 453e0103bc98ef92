// rANS at every CPU level against the scalar code, with words that end where memory ends.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "codec/entropy/rans/kernels/scalar.hpp"
#include "tests/codec/entropy/rans_tables.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

// Runs of symbols, and their encoded form.
struct Sample {
  unsigned n_sets = 1;
  std::vector<std::vector<std::uint8_t>> symbols;
  std::vector<std::vector<std::uint8_t>> places;
  std::vector<std::uint32_t> first_states;  // of the encoder
  std::vector<std::uint32_t> states;
  std::vector<std::vector<std::uint16_t>> words;

  std::vector<SymbolRun> runs(std::vector<std::vector<std::uint8_t>>& of) const {
    std::vector<SymbolRun> result;
    for (std::size_t r = 0; r < symbols.size(); ++r) {
      result.push_back({of[r].data(), symbols[r].size(), places[r].data(), 0});
    }
    return result;
  }
};

using Encode = void(std::span<const SymbolRun>, const RansEncodeTable* const*, unsigned,
                    std::uint32_t*, std::uint16_t**);

// Fills in states and words; memory outside what an encoder may write must not change.
void encode_sample(Sample& sample, const Tables& tables, Encode& encode) {
  constexpr std::uint16_t kUntouched = 0xa55a;
  constexpr std::size_t kRoom = 32;
  constexpr std::size_t kAround = 64;
  std::size_t n_symbols = 0;
  for (const auto& run : sample.symbols) {
    n_symbols += run.size();
  }
  std::vector<std::vector<std::uint16_t>> memory(sample.n_sets);
  std::uint16_t* ends[kMaxLaneSets];
  const std::size_t capacity = kAround + kRoom + n_symbols;
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    memory[set].assign(capacity + kAround, kUntouched);
    ends[set] = memory[set].data() + capacity;
  }
  sample.states = sample.first_states;
  const std::vector<SymbolRun> runs = sample.runs(sample.symbols);
  encode(runs, tables.encode_pointers.data(), sample.n_sets, sample.states.data(), ends);
  sample.words.clear();
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    const std::uint16_t* const end = memory[set].data() + capacity;
    sample.words.emplace_back(static_cast<const std::uint16_t*>(ends[set]), end);
    const auto written = static_cast<std::size_t>(end - ends[set]);
    for (std::size_t i = 0; i < kAround; ++i) {
      ASSERT_EQ(memory[set][capacity + i], kUntouched);
    }
    for (std::size_t i = 0; i + written + kRoom < capacity; ++i) {
      ASSERT_EQ(memory[set][i], kUntouched);
    }
  }
}

Sample make_sample(const Tables& tables, unsigned n_sets, const std::vector<std::size_t>& lengths,
                   unsigned seed) {
  Sample sample;
  sample.n_sets = n_sets;
  std::mt19937 random(seed);
  for (const std::size_t n : lengths) {
    const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
    auto& places = sample.places.emplace_back(n_groups);
    for (auto& place : places) {
      place = static_cast<std::uint8_t>(random() % tables.frequencies.size());
    }
    // There is space for whole groups.
    auto& symbols = sample.symbols.emplace_back(n);
    symbols.reserve(n_groups * kGroupSize);
    for (std::size_t i = 0; i < n; ++i) {
      const Frequencies& frequencies = tables.frequencies[places[i / kGroupSize]];
      unsigned slot = random() % kRansTotal;
      while (slot >= frequencies[symbols[i]]) {
        slot -= frequencies[symbols[i]++];
      }
    }
  }
  for (unsigned lane = 0; lane < n_sets * kRansLanes; ++lane) {
    sample.first_states.push_back(kRansLowest + random() % kRansLowest);
  }
  encode_sample(sample, tables, encode_runs_scalar);
  return sample;
}

struct Decoded {
  bool complete = false;
  std::vector<std::vector<std::uint8_t>> symbols;
  std::vector<std::uint32_t> states;
  std::vector<std::size_t> words_left;

  bool operator==(const Decoded&) const = default;
};

bool decode_scalar(RansLanes& lanes, const RansDecodeTable* const* tables, const SymbolRun& run) {
  for (std::size_t first = 0; first < run.n_symbols; first += kGroupSize) {
    const std::size_t left = run.n_symbols - first;
    const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
    if (!decode_group(lanes, *tables[run.place_of(first / kGroupSize)], n, run.symbols + first)) {
      return false;
    }
  }
  return true;
}

using Decode = bool(RansLanes&, const RansDecodeTable* const*, const SymbolRun&);

// Decodes with the words of set `last` where memory ends.
Decoded decode_sample(const Sample& sample, const Tables& tables, unsigned last, Decode& decode) {
  std::vector<std::byte> bytes;
  std::size_t places[kMaxLaneSets];
  for (unsigned i = 1; i <= sample.n_sets; ++i) {
    const unsigned set = (last + i) % sample.n_sets;
    places[set] = bytes.size();
    const auto some = std::as_bytes(std::span(sample.words[set]));
    bytes.insert(bytes.end(), some.begin(), some.end());
  }
  const test::GuardedBytes memory(bytes);
  RansLanes lanes;
  lanes.n_sets = sample.n_sets;
  std::copy(sample.states.begin(), sample.states.end(), lanes.states);
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    lanes.words[set] = memory.data() + places[set];
    lanes.ends[set] = lanes.words[set] + 2 * sample.words[set].size();
  }
  lanes.readable_end = memory.data() + memory.size();

  Decoded result;
  std::vector<std::vector<std::uint8_t>> symbols;
  for (const auto& run : sample.symbols) {
    symbols.emplace_back((run.size() + kGroupSize - 1) / kGroupSize * kGroupSize);
  }
  for (const SymbolRun& run : sample.runs(symbols)) {
    if (!decode(lanes, tables.decode_pointers.data(), run)) {
      return result;
    }
  }
  result.complete = true;
  for (std::size_t r = 0; r < symbols.size(); ++r) {
    symbols[r].resize(sample.symbols[r].size());
  }
  result.symbols = std::move(symbols);
  result.states.assign(lanes.states, lanes.states + sample.n_sets * kRansLanes);
  for (unsigned set = 0; set < sample.n_sets; ++set) {
    result.words_left.push_back(static_cast<std::size_t>(lanes.ends[set] - lanes.words[set]));
  }
  return result;
}

void check_round_trips(const Tables& tables, const std::vector<std::size_t>& lengths,
                       unsigned seed) {
  for (const unsigned n_sets : kLaneSets) {
    SCOPED_TRACE("sets " + std::to_string(n_sets) + ", symbols " + std::to_string(lengths[0]));
    const Sample sample = make_sample(tables, n_sets, lengths, seed);
    each_level([&](const RansKernels& kernels) {
      Sample coded = sample;
      encode_sample(coded, tables, *kernels.encode);
      EXPECT_TRUE(coded.words == sample.words);
      EXPECT_TRUE(coded.states == sample.states);
      for (unsigned last = 0; last < n_sets; ++last) {
        const Decoded decoded = decode_sample(sample, tables, last, *kernels.decode);
        EXPECT_TRUE(decoded.complete);
        EXPECT_TRUE(decoded.symbols == sample.symbols);
        EXPECT_TRUE(decoded.states == sample.first_states);
        EXPECT_EQ(decoded.words_left, std::vector<std::size_t>(n_sets, 0));
      }
    });
  }
}

TEST(RansKernels, RoundTripsOfOrdinaryTables) {
  const Tables tables(ordinary_tables());
  for (const std::size_t n : {0, 1, 31, 32, 33, 127, 128, 129, 1000, 4096, 70000}) {
    check_round_trips(tables, {n}, static_cast<unsigned>(n));
  }
}

TEST(RansKernels, RoundTripsOfExtremeTables) {
  const Tables tables(extreme_tables());
  for (const std::size_t n : {1, 33, 128, 129, 1000, 70000}) {
    check_round_trips(tables, {n}, static_cast<unsigned>(n));
  }
  // Each symbol alone, so that nothing else shifts the states.
  for (const Frequencies& frequencies : extreme_tables()) {
    check_round_trips(Tables({frequencies}), {2500}, 3);
  }
}

TEST(RansKernels, RunsFollowOneAnother) {
  const Tables tables(ordinary_tables());
  check_round_trips(tables, {1000, 0, 33, 70001, 128, 5}, 1);
  check_round_trips(Tables(extreme_tables()), {77, 4000, 1, 256}, 2);
}

// Any decoder gives the answer of the scalar code, whatever is cut off or changed.
void compare_decoders(const Sample& sample, const Tables& tables, unsigned last) {
  const Decoded expected = decode_sample(sample, tables, last, decode_scalar);
  each_level([&](const RansKernels& kernels) {
    EXPECT_TRUE(decode_sample(sample, tables, last, *kernels.decode) == expected);
  });
}

TEST(RansKernels, WordsThatRunOut) {
  const Tables tables(ordinary_tables());
  for (const unsigned n_sets : kLaneSets) {
    for (const std::size_t n : {300u, 5000u}) {
      const Sample sample = make_sample(tables, n_sets, {n, 40}, n_sets);
      for (unsigned set = 0; set < n_sets; ++set) {
        for (std::size_t cut = 1; cut < 90 && cut <= sample.words[set].size(); ++cut) {
          SCOPED_TRACE(std::to_string(cut) + " words of set " + std::to_string(set) + " cut off");
          Sample less = sample;
          less.words[set].resize(less.words[set].size() - cut);
          EXPECT_FALSE(decode_sample(less, tables, set, decode_scalar).complete);
          compare_decoders(less, tables, set);
          compare_decoders(less, tables, (set + 1) % n_sets);
        }
      }
    }
  }
}

TEST(RansKernels, WordsAndStatesOfNoEncoder) {
  const Tables tables(extreme_tables());
  std::mt19937 random(11);
  unsigned n_complete = 0;
  for (unsigned i = 0; i < 300; ++i) {
    const unsigned n_sets = kLaneSets[i % 3];
    Sample sample = make_sample(tables, n_sets, {random() % 3000}, i);
    for (auto& state : sample.states) {
      state = kRansLowest + random() % (0x80000000u - kRansLowest);
    }
    for (auto& words : sample.words) {
      words.resize(words.size() + random() % 60);
      for (auto& word : words) {
        word = static_cast<std::uint16_t>(random() % 3 == 0 ? 0 : random());
      }
    }
    n_complete += decode_sample(sample, tables, 0, decode_scalar).complete;
    compare_decoders(sample, tables, static_cast<unsigned>(random() % n_sets));
  }
  EXPECT_GT(n_complete, 50u);
  EXPECT_LT(n_complete, 300u);
}

TEST(RansTables, ProductsWithInversesAreQuotientsOrOneLess) {
  std::mt19937 random(5);
  for (unsigned f = 1; f < kRansTotal; ++f) {
    Frequencies frequencies{};
    frequencies[2] = static_cast<std::uint16_t>(f);
    RansEncodeTable table;
    build_encode_table(completed(frequencies, 1), table);
    for (unsigned i = 0; i < 400; ++i) {
      const std::uint32_t largest = (1u << 19) - 1;
      const std::uint32_t q = i < 100 ? largest - i : i < 110 ? i - 100 : random() % (largest + 1);
      for (const std::uint32_t rank : {0u, f / 2, f - 1}) {
        const auto product =
            static_cast<float>(static_cast<std::int32_t>(q * f + rank)) * table.inverses[2];
        const auto found = static_cast<std::uint32_t>(product);
        ASSERT_TRUE(found == q || found + 1 == q) << f << " " << q << " " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace cfck::codec
