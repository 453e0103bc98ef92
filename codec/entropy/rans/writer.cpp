#include "codec/entropy/rans/writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "codec/common/bit_strings.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/tables/cost.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kCountedGroups = 8;  // one in 8, if all lane sets are used

using PlaceCounts = std::array<SymbolCounts, kMaxPlaces>;

// Adds the symbols of every `step`-th group, `step` times.
void count_run(const SymbolRun& run, std::size_t step, PlaceCounts& counts) {
  for (std::size_t g = 0; g * kGroupSize < run.n_symbols; g += step) {
    const std::uint8_t* const symbols = run.symbols + g * kGroupSize;
    const std::size_t n = std::min<std::size_t>(kGroupSize, run.n_symbols - g * kGroupSize);
    SymbolCounts& place = counts[run.place_of(g)];
    // Four tables, so that equal neighbours do not wait for each other.
    std::array<std::array<std::uint8_t, kRansSymbols>, 4> found{};
    std::size_t i = 0;
    for (; i + sizeof(std::uint64_t) <= n; i += sizeof(std::uint64_t)) {
      std::uint64_t some;
      std::memcpy(&some, symbols + i, sizeof(some));
      for (unsigned j = 0; j < sizeof(some); ++j) {
        ++found[j % 4][some >> (8 * j) & 0xff];
      }
    }
    for (; i < n; ++i) {
      ++found[0][symbols[i]];
    }
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      place[s] += static_cast<std::uint32_t>(
          (found[0][s] + found[1][s] + found[2][s] + found[3][s]) * step);
    }
  }
}

// Adds the symbols of a run with two tables; each symbol is counted for its own table.
void count_chosen(const SymbolRun& run, const std::uint8_t* choices, std::size_t step,
                  PlaceCounts& counts) {
  for (std::size_t g = 0; g * kGroupSize < run.n_symbols; g += step) {
    const std::size_t first = g * kGroupSize;
    const std::size_t n = std::min<std::size_t>(kGroupSize, run.n_symbols - first);
    // Four tables, so that equal neighbours do not wait for each other.
    std::array<std::array<std::uint8_t, 2 * kRansSymbols>, 4> found{};
    std::size_t i = 0;
    for (; i + sizeof(std::uint64_t) <= n; i += sizeof(std::uint64_t)) {
      std::uint64_t symbols, tables;
      std::memcpy(&symbols, run.symbols + first + i, sizeof(symbols));
      std::memcpy(&tables, choices + first + i, sizeof(tables));
      const std::uint64_t places = symbols + tables * kRansSymbols;
      for (unsigned j = 0; j < sizeof(places); ++j) {
        ++found[j % 4][places >> (8 * j) & 0xff];
      }
    }
    for (; i < n; ++i) {
      ++found[0][choices[first + i] * kRansSymbols + run.symbols[first + i]];
    }
    for (unsigned choice = 0; choice < 2; ++choice) {
      SymbolCounts& place = counts[run.place_of(g) + choice];
      for (unsigned s = 0; s < kRansSymbols; ++s) {
        const unsigned at = choice * kRansSymbols + s;
        place[s] += static_cast<std::uint32_t>(
            (found[0][at] + found[1][at] + found[2][at] + found[3][at]) * step);
      }
    }
  }
}

bool is_empty(const SymbolCounts& counts) {
  return std::ranges::all_of(counts, [](std::uint32_t count) { return count == 0; });
}

template <class Cost>
unsigned cheapest(unsigned n, Cost&& cost) {
  unsigned best = 0;
  std::uint64_t min = cost(0);
  for (unsigned i = 1; i < n; ++i) {
    const std::uint64_t other = cost(i);
    if (other < min) {
      min = other;
      best = i;
    }
  }
  return best;
}

class SectionWriter {
 public:
  SectionWriter(std::span<const RansSymbols> segments, Scratch& scratch,
                std::vector<std::byte>& out)
      : segments_(segments),
        value_tables_(segments[0].tables),
        n_sets_(segments[0].n_sets),
        n_places_(kFirstValuePlace + value_tables_.n_tables),
        memory_(scratch.part<RansScratch>()),
        out_(out) {}

  // Estimates the bytes that append() appends, without the rounding of lanes and bytes.
  std::size_t estimate() {
    choose_tables();
    choose_explicit();
    const unsigned n_lanes = n_sets_ * kRansLanes;
    std::uint64_t cost = (kRansStateBits + kRansLengthBits) * n_lanes * kBitCost;
    for (unsigned i = 0; i < n_counted_; ++i) {
      const unsigned place = counted_[i];
      const bool is_fitted = is_explicit_[place];
      cost += coded_cost(counts_[place],
                         is_fitted ? fitted_[place] : static_frequencies(static_[place]));
      cost += is_fitted ? table_bits(fitted_[place]) * kBitCost + kPlaceCost : 0;
    }
    return static_cast<std::size_t>(cost / (8 * kBitCost)) + 2 + 2 * n_sets_;
  }

  RansSegmentBytes append() {
    choose_tables();
    choose_explicit();
    build_tables();
    RansSegmentBytes bytes;
    std::size_t begin = out_.size();
    const auto take_bytes = [&] {
      const std::size_t n = out_.size() - begin;
      begin = out_.size();
      return n;
    };
    write_tables();
    if (segments_.size() > 1) {
      bytes.tables = take_bytes();
    }
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      encode(segments_[i]);
      bytes.coded[i] = take_bytes();
    }
    return bytes;
  }

 private:
  void choose_tables() {
    for (const RansSymbols& segment : segments_) {
      count(segment);
    }
    for (unsigned place = 0; place < n_places_; ++place) {
      if (!is_empty(counts_[place])) {
        counted_[n_counted_++] = static_cast<std::uint8_t>(place);
      }
    }
    chosen_.bins = cheapest(kRansBinTables, [&](unsigned i) {
      return coded_cost(counts_[kBinPlace], static_frequencies(bin_table(i)));
    });
    chosen_.trailing_zero_bits = cheapest(kRansCleanTables, [&](unsigned i) {
      return coded_cost(counts_[kCleanPlace], static_frequencies(trailing_zero_table(i)));
    });
    chosen_.family = cheapest(kRansFamilies, [&](unsigned family) {
      std::uint64_t cost = 0;
      for (unsigned i = 0; i < n_counted_; ++i) {
        if (counted_[i] >= kFirstValuePlace) {
          cost += coded_cost(counts_[counted_[i]],
                             static_frequencies(value_table(family, value_tables_,
                                                            counted_[i] - kFirstValuePlace)));
        }
      }
      return cost;
    });
  }

  void count(const RansSymbols& symbols) {
    count_run(symbols.bins, 1, counts_);
    count_run(symbols.trailing_zero_bits, 1, counts_);
    const std::size_t step = n_sets_ == kMaxLaneSets && !symbols.counts_all ? kCountedGroups : 1;
    if (symbols.choices == nullptr) {
      count_run(symbols.values, step, counts_);
    } else {
      count_chosen(symbols.values, symbols.choices, step, counts_);
    }
    for (const SymbolRun& run : {symbols.bins, symbols.trailing_zero_bits, symbols.values}) {
      for (std::size_t g = 0; g * kGroupSize < run.n_symbols; ++g) {
        is_used_[run.place_of(g)] = true;
      }
    }
    for (std::size_t g = 0; symbols.choices != nullptr && g * kGroupSize < symbols.values.n_symbols;
         ++g) {
      is_used_[symbols.values.place_of(g) + 1u] = true;
    }
  }

  void choose_explicit() {
    std::uint64_t saved = 0;
    for (unsigned place = 0; place < n_places_; ++place) {
      static_[place] = chosen_.table_of(place, value_tables_);
    }
    for (unsigned i = 0; i < n_counted_; ++i) {
      const unsigned place = counted_[i];
      const Frequencies& known = static_frequencies(static_[place]);
      const std::uint64_t known_cost = coded_cost(counts_[place], known);
      if (known_cost <= min_cost(counts_[place]) + kMinTableCost) {
        continue;
      }
      const Frequencies fitted = fitted_frequencies(counts_[place], known);
      const std::uint64_t cost =
          coded_cost(counts_[place], fitted) + table_bits(fitted) * kBitCost + kPlaceCost;
      if (cost < known_cost) {
        saved += known_cost - cost;
        is_explicit_[place] = true;
        fitted_[place] = fitted;
      }
    }
    if (saved <= kPlaceCost) {
      is_explicit_ = {};
    }
  }

  void build_tables() {
    if (memory_.fitted_tables == nullptr) {
      memory_.fitted_tables =
          std::make_unique_for_overwrite<std::array<RansEncodeTable, kMaxPlaces>>();
    }
    for (unsigned place = 0; place < n_places_; ++place) {
      RansEncodeTable& fitted = (*memory_.fitted_tables)[place];
      tables_[place] = &fitted;
      if (is_used_[place] && is_explicit_[place]) {
        build_encode_table(fitted_[place], fitted);
      } else if (is_used_[place]) {
        tables_[place] = &static_encode_table(static_[place]);
      }
    }
  }

  void write_tables() {
    const auto n_explicit =
        static_cast<unsigned>(std::count(is_explicit_.begin(), is_explicit_.end(), true));
    const unsigned layout =
        static_cast<unsigned>(std::countr_zero(n_sets_)) | (n_explicit != 0 ? kLayoutExplicit : 0u);
    const unsigned choice = chosen_.family | chosen_.bins << 3 | chosen_.trailing_zero_bits << 6;
    out_.push_back(static_cast<std::byte>(layout));
    out_.push_back(static_cast<std::byte>(choice));
    if (n_explicit == 0) {
      return;
    }
    out_.push_back(static_cast<std::byte>(n_explicit));
    for (unsigned place = 0; place < n_places_; ++place) {
      if (is_explicit_[place]) {
        out_.push_back(static_cast<std::byte>(place));
        write_frequencies(fitted_[place]);
      }
    }
  }

  void write_frequencies(const Frequencies& frequencies) {
    const std::span listed = std::span(frequencies).first(kRansSymbols - 1);
    BitWriter bits(out_);
    for (const std::uint32_t frequency : listed) {
      bits.put(static_cast<std::uint32_t>(std::bit_width(frequency)), kRansLengthBits);
    }
    for (const std::uint32_t frequency : listed) {
      const auto n = static_cast<unsigned>(std::bit_width(frequency));
      if (n > 1) {
        bits.put(frequency - (1u << (n - 1)), n - 1);
      }
    }
    bits.finish();
  }

  // Starts the lanes with the tail in their low bits.
  void start_lanes(ByteView tail, std::uint32_t* states) const {
    std::uint64_t bits = 0;
    unsigned n_bits = 0;
    std::size_t at = 0;
    for (unsigned lane = 0; lane < n_sets_ * kRansLanes; ++lane) {
      for (; n_bits < kRansStateBits; n_bits += 8) {
        const auto next = at < tail.size() ? static_cast<std::uint64_t>(tail[at]) : 0;
        ++at;
        bits |= next << n_bits;
      }
      states[lane] = kRansLowest | static_cast<std::uint32_t>(bits & (kRansLowest - 1));
      bits >>= kRansStateBits;
      n_bits -= kRansStateBits;
    }
  }

  void write_states(std::span<const std::uint32_t> states) {
    BitWriter bits(out_);
    const auto length_of = [](std::uint32_t state) {
      return static_cast<unsigned>(std::bit_width(state)) - 1;
    };
    for (const std::uint32_t state : states) {
      bits.put(length_of(state) - kRansStateBits, kRansLengthBits);
    }
    for (const std::uint32_t state : states) {
      bits.put(state - (1u << length_of(state)), length_of(state));
    }
    bits.finish();
  }

  void encode_chosen_values(const RansSymbols& symbols, std::uint32_t* states,
                            std::uint16_t** ends) const {
    RansTablePair<RansEncodeTable> pairs[kMaxPlaces];
    for (unsigned place = kFirstValuePlace; place + 1 < n_places_; ++place) {
      pairs[place] = {{tables_[place], tables_[place + 1]}};
    }
    rans_kernels().encode_chosen(symbols.values, symbols.choices, pairs, n_sets_, states, ends);
  }

  void encode(const RansSymbols& symbols) {
    const std::array<SymbolRun, 3> runs{symbols.bins, symbols.trailing_zero_bits, symbols.values};
    std::size_t n_groups = 0;
    for (const SymbolRun& run : runs) {
      n_groups += (run.n_symbols + kGroupSize - 1) / kGroupSize;
    }
    // There is at most one word for every symbol, and vectors write some words before it.
    const std::size_t room = n_groups * kGroupSize / n_sets_ + 2 * kRansLanes;
    std::uint16_t* const words = memory_.words.reserve(room * n_sets_);
    alignas(64) std::uint32_t states[kMaxLaneSets * kRansLanes];
    start_lanes(symbols.tail, states);
    std::uint16_t* ends[kMaxLaneSets];
    for (unsigned set = 0; set < n_sets_; ++set) {
      ends[set] = words + (set + 1) * room;
    }
    if (symbols.choices != nullptr) {
      encode_chosen_values(symbols, states, ends);
      rans_kernels().encode(std::span(runs).first(2), tables_, n_sets_, states, ends);
    } else {
      rans_kernels().encode(runs, tables_, n_sets_, states, ends);
    }
    std::array<std::size_t, kMaxLaneSets> n_words{};
    for (unsigned set = 0; set < n_sets_; ++set) {
      n_words[set] = static_cast<std::size_t>(words + (set + 1) * room - ends[set]);
      append_varint(static_cast<std::uint32_t>(n_words[set]), out_);
    }
    write_states(std::span(states).first(n_sets_ * kRansLanes));
    for (unsigned set = 0; set < n_sets_; ++set) {
      const auto* const first = reinterpret_cast<const std::byte*>(ends[set]);
      out_.insert(out_.end(), first, first + 2 * n_words[set]);
    }
  }

  const std::span<const RansSymbols> segments_;
  const ValueTables value_tables_;
  const unsigned n_sets_;
  const unsigned n_places_;
  RansScratch& memory_;
  std::vector<std::byte>& out_;
  PlaceCounts counts_{};
  std::array<bool, kMaxPlaces> is_used_{};
  TableChoice chosen_;
  std::array<unsigned, kMaxPlaces> static_{};
  std::array<bool, kMaxPlaces> is_explicit_{};
  std::array<Frequencies, kMaxPlaces> fitted_{};
  const RansEncodeTable* tables_[kMaxPlaces] = {};
  std::array<std::uint8_t, kMaxPlaces> counted_{};  // places of which some symbol is counted
  unsigned n_counted_ = 0;
};

}  // namespace

void append_rans_section(const RansSymbols& symbols, Scratch& scratch,
                         std::vector<std::byte>& out) {
  append_rans_segments({&symbols, 1}, scratch, out);
}

RansSegmentBytes append_rans_segments(std::span<const RansSymbols> segments, Scratch& scratch,
                                      std::vector<std::byte>& out) {
  return SectionWriter(segments, scratch, out).append();
}

std::size_t estimate_rans_section(const RansSymbols& symbols, Scratch& scratch) {
  std::vector<std::byte> unused;
  return SectionWriter({&symbols, 1}, scratch, unused).estimate();
}

}  // namespace cfck::codec
