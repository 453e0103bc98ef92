// Sections of the entropy stage rans, and chunks with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/codec/entropy/rans_tables.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

// The runs of which a section consists.
struct Runs {
  std::vector<std::uint8_t> bins, trailing_zero_bits, values, places;
  std::vector<std::byte> tail;
  unsigned n_sets = 1;

  Runs(std::size_t n, unsigned sets, unsigned seed) : n_sets(sets) {
    std::mt19937 random(seed);
    const std::size_t n_groups = (n + kGroupSize - 1) / kGroupSize;
    bins.resize(n_groups);
    trailing_zero_bits.resize(seed % 2 == 0 ? n_groups : 0);
    values.resize(n);
    for (std::uint8_t& s : bins) s = static_cast<std::uint8_t>(random() % 4);
    for (std::uint8_t& s : trailing_zero_bits) s = static_cast<std::uint8_t>(random() % 2);
    for (std::uint8_t& s : values) {
      s = static_cast<std::uint8_t>((random() % 6 + random() % 6) * (seed % 3 + 1));
    }
    for (std::size_t g = 0; g < n_groups; ++g) {
      places.push_back(static_cast<std::uint8_t>(kFirstValuePlace + random() % kLosslessTables));
    }
    tail.resize(payload_bytes(sets) - random() % 2 * (random() % 60));
    for (std::byte& b : tail) b = static_cast<std::byte>(random());
  }

  std::vector<std::byte> section(Scratch& scratch) {
    std::vector<std::byte> out;
    append_rans_section(
        {{bins.data(), bins.size(), nullptr, kBinPlace},
         {trailing_zero_bits.data(), trailing_zero_bits.size(), nullptr, kCleanPlace},
         {values.data(), values.size(), places.data(), 0},
         kLosslessValueTables,
         n_sets,
         tail},
        scratch, out);
    return out;
  }

  // Returns whether the section is decoded to these runs; nullopt if it is refused.
  std::optional<bool> decoded(ByteView coded) const {
    RansReader reader;
    if (!reader.open(coded, coded.data() + coded.size(), kLosslessValueTables)) {
      return std::nullopt;
    }
    std::vector<std::uint8_t> out[3];
    const std::vector<std::uint8_t>* const wanted[] = {&bins, &trailing_zero_bits, &values};
    bool same = reader.n_sets() == n_sets;
    for (unsigned run = 0; run < 3; ++run) {
      const std::size_t n = wanted[run]->size();
      out[run].resize(n + kGroupSize);
      if (!reader.decode({out[run].data(), n, run == 2 ? places.data() : nullptr,
                          static_cast<std::uint8_t>(run)})) {
        return std::nullopt;
      }
      same = same && std::equal(wanted[run]->begin(), wanted[run]->end(), out[run].begin());
    }
    std::array<std::byte, payload_bytes(kMaxLaneSets)> payload{};
    if (!reader.finish(tail.size(), payload.data())) {
      return std::nullopt;
    }
    std::array<std::byte, payload_bytes(kMaxLaneSets)> expected{};
    std::copy(tail.begin(), tail.end(), expected.begin());
    return same &&
           std::equal(expected.begin(), expected.begin() + payload_bytes(n_sets), payload.begin());
  }
};

// Calls body() at each CPU level of this machine.
template <class Body>
void at_each_level(Body&& body) {
  const CpuLevel best = cpu_level();
  for (const CpuLevel level : kLevels) {
    if (level <= best) {
      SCOPED_TRACE("level " + std::to_string(static_cast<int>(level)));
      set_cpu_level(level);
      body();
    }
  }
  set_cpu_level(best);
}

TEST(RansSections, RoundTrips) {
  Scratch scratch;
  for (const unsigned n_sets : kLaneSets) {
    for (const std::size_t n : {1u, 31u, 128u, 129u, 700u, 5000u}) {
      for (unsigned seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(std::to_string(n_sets) + " sets, " + std::to_string(n) + " values");
        Runs runs(n, n_sets, seed);
        const std::vector<std::byte> section = runs.section(scratch);
        at_each_level([&] {
          EXPECT_TRUE(runs.section(scratch) == section);
          const test::GuardedBytes behind(section);
          const test::GuardedBytes before(section, test::Guard::kBefore);
          EXPECT_EQ(runs.decoded(behind.bytes()), true);
          EXPECT_EQ(runs.decoded(before.bytes()), true);
        });
      }
    }
  }
}

TEST(RansSections, EveryPrefixAndEveryByteMoreIsRefused) {
  Scratch scratch;
  for (const unsigned n_sets : kLaneSets) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      Runs runs(600, n_sets, seed);
      std::vector<std::byte> section = runs.section(scratch);
      at_each_level([&] {
        for (std::size_t n = 0; n < section.size(); ++n) {
          const test::GuardedBytes cut(ByteView(section).first(n));
          EXPECT_FALSE(runs.decoded(cut.bytes())) << n;
        }
        section.push_back(std::byte{0});
        EXPECT_FALSE(runs.decoded(section));
        section.pop_back();
      });
    }
  }
}

TEST(RansSections, LanesCarryTheTailAndNothingElse) {
  Scratch scratch;
  for (const unsigned n_sets : kLaneSets) {
    Runs runs(600, n_sets, 1);
    runs.tail.assign(payload_bytes(n_sets), std::byte{0});
    runs.tail[20] = std::byte{1};
    const std::vector<std::byte> section = runs.section(scratch);
    for (const std::size_t n_tail : {payload_bytes(n_sets), std::size_t{21}}) {
      runs.tail.resize(n_tail);
      EXPECT_EQ(runs.decoded(section), true);
    }
    runs.tail.resize(20);
    EXPECT_EQ(runs.decoded(section), std::nullopt);
    runs.tail.clear();
    EXPECT_EQ(runs.decoded(section), std::nullopt);
  }
}

TEST(RansSections, RunsThatLeaveWordsDoNotFinish) {
  Scratch scratch;
  for (const unsigned n_sets : kLaneSets) {
    Runs runs(5000, n_sets, 0);
    const std::vector<std::byte> section = runs.section(scratch);
    runs.values.resize(4000);
    EXPECT_EQ(runs.decoded(section), std::nullopt);
  }
}

TEST(RansSections, AllLevelsSayTheSameOfDamage) {
  Scratch scratch;
  for (const unsigned n_sets : kLaneSets) {
    Runs runs(300, n_sets, n_sets);
    std::vector<std::byte> section = runs.section(scratch);
    std::size_t n_read = 0;
    std::size_t n_refused = 0;
    for (std::size_t bit = 0; bit < 8 * section.size(); bit += 1 + bit % 3) {
      section[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      const test::GuardedBytes damaged(section);
      std::vector<std::optional<bool>> outcomes;
      at_each_level([&] { outcomes.push_back(runs.decoded(damaged.bytes())); });
      for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome, outcomes[0]) << bit;
      }
      ++(outcomes[0].has_value() ? n_read : n_refused);
      section[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    EXPECT_GT(n_read, 0u);
    EXPECT_GT(n_refused, 0u);
  }
}

// Hashes states, then words, least significant bytes first.
class Hash {
 public:
  void add(std::uint32_t value, unsigned n_bytes) {
    for (; n_bytes > 0; --n_bytes, value >>= 8) {
      value_ = (value_ ^ (value & 0xff)) * 0x100000001b3u;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;  // FNV-1a
};

// Computes the hash that test_rans_trellis.py computes from the page, for equal symbols and tables.
std::uint64_t hash_of_trellis(const Trellis& trellis, unsigned n_sets) {
  std::vector<Frequencies> first, second;
  for (unsigned g = 0; g < 6; ++g) {
    first.push_back(static_frequencies(value_table(g % 8, kLosslessValueTables, g % 4)));
    second.push_back(
        static_frequencies(value_table((g + 3) % 8, kLosslessValueTables, (g + 1) % 4)));
  }
  const Tables tables[2] = {Tables(first), Tables(second)};
  std::vector<RansTablePair<RansEncodeTable>> pairs;
  std::vector<std::uint8_t> places(6), symbols(700), choices(700), trellis_states(128);
  for (unsigned g = 0; g < 6; ++g) {
    pairs.push_back({{&tables[0].encode[g], &tables[1].encode[g]}});
    places[g] = static_cast<std::uint8_t>(g);
  }
  std::uint32_t x = 1;
  for (std::uint8_t& symbol : symbols) {
    x = (x * 1103515245u + 12345u) % (1u << 31);
    symbol = static_cast<std::uint8_t>((x >> 16) % kRansSymbols);
  }
  for (std::size_t i = 0; i < symbols.size(); i += kGroupSize) {  // groups begin with lane 0
    choose_tables(trellis, &symbols[i], nullptr,
                  std::min<std::size_t>(kGroupSize, symbols.size() - i), n_sets * kRansLanes,
                  trellis_states.data(), &choices[i]);
  }
  std::vector<std::uint32_t> states(n_sets * kRansLanes);
  std::vector<std::vector<std::uint16_t>> words(n_sets, std::vector<std::uint16_t>(800));
  std::uint16_t* ends[kMaxLaneSets];
  for (unsigned lane = 0; lane < states.size(); ++lane) states[lane] = kRansLowest + 37 * lane;
  for (unsigned set = 0; set < n_sets; ++set) ends[set] = words[set].data() + words[set].size();
  rans_kernels().encode_chosen({symbols.data(), symbols.size(), places.data(), 0}, choices.data(),
                               pairs.data(), n_sets, states.data(), ends);
  Hash hash;
  for (const std::uint32_t state : states) hash.add(state, 4);
  for (unsigned set = 0; set < n_sets; ++set) {
    const std::uint16_t* const end = words[set].data() + words[set].size();
    for (; ends[set] != end; ++ends[set]) hash.add(*ends[set], 2);
  }
  return hash.value();
}

TEST(RansTrellis, BytesAreThoseOfThePage) {
  at_each_level([] {
    EXPECT_EQ(hash_of_trellis(kTrellis4, 1), 0x16fe6acc1b6f5e0du);
    EXPECT_EQ(hash_of_trellis(kTrellis4, 2), 0xdb701df68105ecc8u);
    EXPECT_EQ(hash_of_trellis(kTrellis4, 4), 0xc5abbef83fc75946u);
    EXPECT_EQ(hash_of_trellis(kTrellis8, 1), 0x4bccbb852dc9675cu);
    EXPECT_EQ(hash_of_trellis(kTrellis8, 2), 0x4dfe950c09665123u);
    EXPECT_EQ(hash_of_trellis(kTrellis8, 4), 0xb426431983293aa8u);
    EXPECT_EQ(hash_of_trellis(kTrellis64, 1), 0x985adbb112a52534u);
    EXPECT_EQ(hash_of_trellis(kTrellis64, 2), 0xf957b835368f190du);
    EXPECT_EQ(hash_of_trellis(kTrellis64, 4),
              0xb426431983293aa8u);  // six steps of a lane: as 8 states
  });
}

// Chunks are decoded where reading one byte outside ends the program.
TEST(RansChunks, AreReadFromWithinTheirBytes) {
  Scratch scratch;
  for (const DType dtype : {DType::kF8E4M3, DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    for (const Pattern pattern : kAllPatterns) {
      for (const std::uint64_t n : {1u, 40u, 129u, 1000u, 9000u}) {
        SCOPED_TRACE(describe(dtype, pattern, n));
        const std::vector<std::byte> values = make_values(dtype, pattern, n);
        const ChunkInfo info = chunk_info(dtype, n, EntropyId::kRans);
        const EncodedChunk encoded = encode_lossless(dtype, n, values, EntropyId::kRans);
        at_each_level([&] {
          for (const test::Guard guard : {test::Guard::kBehind, test::Guard::kBefore}) {
            const test::GuardedBytes payload(encoded.payload, guard);
            std::vector<std::byte> out(values.size());
            EXPECT_TRUE(
                find_decoder(CodecId::kLossless)->decode(info, payload.bytes(), scratch, out));
            EXPECT_TRUE(out == values);
          }
        });
      }
    }
  }
}

TEST(RansChunks, DirectOnesAreReadFromWithinTheirBytes) {
  Scratch scratch;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    for (const std::uint64_t n : {5u, 128u, 1000u, 9000u}) {
      for (const double bound : {0.05, 1e-3, 1e-6}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(n));
        const std::vector<std::byte> values = make_spread(dtype, Spread::kHeavy, n, 0.05);
        const std::vector<std::uint64_t> shape = {n};
        const DirectChunkInfo info{dtype, EntropyId::kRans, shape, 0, n, nullptr};
        DirectParameters parameters;
        parameters.step = *step_of(bound);
        std::vector<std::byte> decoded(values.size());
        DirectChunk chunk;
        ASSERT_TRUE(encode_direct(info, parameters, ParameterPlace::kInline, {bound, {}}, values,
                                  scratch, decoded, chunk));
        at_each_level([&] {
          for (const test::Guard guard : {test::Guard::kBehind, test::Guard::kBefore}) {
            const test::GuardedBytes payload(chunk.encoded.payload, guard);
            std::vector<std::byte> out(values.size());
            EXPECT_TRUE(decode_direct(info, payload.bytes(), scratch, out));
            EXPECT_TRUE(out == decoded);
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace cfck::codec
