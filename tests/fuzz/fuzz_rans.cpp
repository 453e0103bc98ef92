// Decodes arbitrary words as lanes of rANS at every CPU level and symbol by symbol: all must agree,
// and decoded symbols must encode again to equal words and states. The input: a byte for lane sets
// and trellis, one for the number of tables, the tables as they are stored, a byte that states are
// made of, two for the number of symbols, one for each lane set with its part of the words, and the
// words.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "codec/entropy/rans/kernels/scalar.hpp"
#include "codec/entropy/rans/section.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

constexpr CpuLevel kLevels[] = {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4};

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

struct Case {
  unsigned n_sets = 1;
  const Trellis* trellis = nullptr;  // none: one table for each group
  std::vector<RansDecodeTable> decode_tables;
  std::vector<RansEncodeTable> encode_tables;
  std::vector<std::uint8_t> places;
  std::size_t n_symbols = 0;
  std::vector<std::uint32_t> states;
  std::vector<std::vector<std::byte>> words;

  unsigned n_lanes() const { return n_sets * kRansLanes; }

  template <class Table>
  std::vector<RansTablePair<Table>> pairs(const std::vector<Table>& tables) const {
    std::vector<RansTablePair<Table>> result;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      result.push_back({{&tables[i], &tables[(i + 1) % tables.size()]}});
    }
    return result;
  }
};

std::optional<Case> read_case(ByteView bytes) {
  std::size_t at = 0;
  const auto byte = [&] { return at < bytes.size() ? std::to_integer<unsigned>(bytes[at++]) : 0u; };
  Case result;
  const unsigned layout = byte();
  result.n_sets = 1u << layout % 3;
  constexpr const Trellis* kTrellises[] = {nullptr, &kTrellis4, &kTrellis8, &kTrellis64};
  result.trellis = kTrellises[layout >> 6 & 3];
  const unsigned n_tables = 1 + byte() % 4;
  for (unsigned i = 0; i < n_tables; ++i) {
    const auto frequencies = read_frequencies(bytes, at);
    if (!frequencies) {
      return std::nullopt;
    }
    build_decode_table(*frequencies, result.decode_tables.emplace_back());
    build_encode_table(*frequencies, result.encode_tables.emplace_back());
  }
  std::uint32_t random = 1 + byte();
  for (unsigned lane = 0; lane < result.n_lanes(); ++lane) {
    random = random * 1664525 + 1013904223;
    result.states.push_back(kRansLowest + (random >> 1) % (0x80000000u - kRansLowest));
  }
  const unsigned low = byte();
  result.n_symbols = (low | byte() << 8) % 1500;
  for (std::size_t i = 0; i < (result.n_symbols + kGroupSize - 1) / kGroupSize; ++i) {
    random = random * 1664525 + 1013904223;
    result.places.push_back(static_cast<std::uint8_t>((random >> 16) % n_tables));
  }
  std::vector<std::size_t> parts;
  for (unsigned set = 0; set < result.n_sets; ++set) {
    parts.push_back(byte());
  }
  for (unsigned set = 0; set < result.n_sets; ++set) {
    const std::size_t left = (bytes.size() - at) / 2 * 2;
    const std::size_t n = set + 1 == result.n_sets ? left : left * parts[set] / 512 * 2;
    result.words.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                              bytes.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
  }
  return result;
}

struct Decoded {
  bool complete = false;
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> trellis_states;
  std::vector<std::uint32_t> states;
  std::vector<std::size_t> words_taken;

  bool operator==(const Decoded&) const = default;
};

bool decode_scalar(const Case& from, RansLanes& lanes, std::uint8_t* trellis_states,
                   const SymbolRun& run) {
  const auto pairs = from.pairs(from.decode_tables);
  for (std::size_t i = 0; i < run.n_symbols; i += kGroupSize) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, run.n_symbols - i));
    const auto& tables = pairs[run.place_of(i / kGroupSize)];
    const bool fits = from.trellis != nullptr
                          ? decode_group(lanes, tables, *from.trellis, trellis_states, n, nullptr,
                                         run.symbols + i)
                          : decode_group(lanes, *tables.of[0], n, run.symbols + i);
    if (!fits) {
      return false;
    }
  }
  return true;
}

// Without kernels it decodes symbol by symbol.
Decoded decode(const Case& from, const RansKernels* kernels) {
  std::vector<std::byte> bytes;
  for (const auto& words : from.words) {
    bytes.insert(bytes.end(), words.begin(), words.end());
  }
  const test::GuardedBytes memory(bytes);
  RansLanes lanes;
  lanes.n_sets = from.n_sets;
  std::copy(from.states.begin(), from.states.end(), lanes.states);
  const std::byte* next = memory.data();
  for (unsigned set = 0; set < from.n_sets; ++set) {
    lanes.words[set] = next;
    next += from.words[set].size();
    lanes.ends[set] = next;
  }
  lanes.readable_end = next;
  Decoded result;
  std::vector<std::uint8_t> symbols(from.places.size() * kGroupSize);
  std::vector<std::uint8_t> trellis_states(from.n_lanes());
  const SymbolRun run{symbols.data(), from.n_symbols, from.places.data(), 0};
  std::vector<const RansDecodeTable*> tables;
  for (const auto& table : from.decode_tables) {
    tables.push_back(&table);
  }
  result.complete = kernels == nullptr ? decode_scalar(from, lanes, trellis_states.data(), run)
                    : from.trellis != nullptr
                        ? kernels->decode_chosen(lanes, from.pairs(from.decode_tables).data(),
                                                 *from.trellis, trellis_states.data(), run, nullptr)
                        : kernels->decode(lanes, tables.data(), run);
  if (result.complete) {
    result.symbols.assign(symbols.begin(),
                          symbols.begin() + static_cast<std::ptrdiff_t>(from.n_symbols));
    result.trellis_states = trellis_states;
    result.states.assign(lanes.states, lanes.states + from.n_lanes());
    for (unsigned set = 0; set < from.n_sets; ++set) {
      result.words_taken.push_back(from.words[set].size() -
                                   static_cast<std::size_t>(lanes.ends[set] - lanes.words[set]));
    }
  }
  return result;
}

void check_encoding(const Case& from, const Decoded& decoded, const RansKernels& kernels) {
  std::vector<std::uint8_t> symbols = decoded.symbols;
  const SymbolRun run{symbols.data(), symbols.size(), from.places.data(), 0};
  std::vector<std::uint32_t> states = decoded.states;
  const std::size_t room = symbols.size() + 32;
  std::vector<std::uint16_t> memory(from.n_sets * room);
  std::uint16_t* ends[kMaxLaneSets];
  for (unsigned set = 0; set < from.n_sets; ++set) {
    ends[set] = memory.data() + (set + 1) * room;
  }
  if (from.trellis != nullptr) {
    std::vector<std::uint8_t> choices(symbols.size());
    std::vector<std::uint8_t> trellis_states(from.n_lanes());
    for (std::size_t i = 0; i < symbols.size(); i += kGroupSize) {
      choose_tables(*from.trellis, symbols.data() + i, nullptr,
                    std::min<std::size_t>(kGroupSize, symbols.size() - i), from.n_lanes(),
                    trellis_states.data(), choices.data() + i);
    }
    require(trellis_states == decoded.trellis_states);
    kernels.encode_chosen(run, choices.data(), from.pairs(from.encode_tables).data(), from.n_sets,
                          states.data(), ends);
  } else {
    std::vector<const RansEncodeTable*> tables;
    for (const auto& table : from.encode_tables) {
      tables.push_back(&table);
    }
    kernels.encode({&run, 1}, tables.data(), from.n_sets, states.data(), ends);
  }
  require(states == from.states);
  for (unsigned set = 0; set < from.n_sets; ++set) {
    const std::size_t n = decoded.words_taken[set];
    require(ends[set] + n / 2 == memory.data() + (set + 1) * room);
    require(n == 0 || std::memcmp(ends[set], from.words[set].data(), n) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = read_case({reinterpret_cast<const std::byte*>(data), size});
  if (!input) {
    return 0;
  }
  const Decoded expected = decode(*input, nullptr);
  for (const bool allows_vbmi2 : {false, true}) {
    allow_vbmi2(allows_vbmi2);
    for (const CpuLevel level : kLevels) {
      if (level <= cpu_level()) {
        const RansKernels& kernels = rans_kernels_of(level);
        require(decode(*input, &kernels) == expected);
        if (expected.complete) {
          check_encoding(*input, expected, kernels);
        }
      }
    }
  }
  return 0;
}
