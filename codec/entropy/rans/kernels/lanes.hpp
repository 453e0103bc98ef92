// Decoding of whole groups with the states in registers, for loops that use the symbols
// of a group at once. Each CPU level that has vector code provides it:
//
//   RansWords<n_sets> words(lanes);
//   RansRegisters<n_sets> x(lanes, words);
//   while (groups are left) {
//     for (as many as are left, but at most x.ready_groups()) {
//       x.decode_group(table, symbols);
//       ... symbols ...
//     }
//     if (!x.in_bounds()) {
//       return false;  // words ran out; values decoded since ready_groups() are invalid
//     }
//   }
//   x.store(lanes);
//
// Both are local variables, and their functions are inlined, so that what the second holds
// stays in registers.
#pragma once

#include <type_traits>
#include <utility>

#if defined(__AVX512VBMI2__)
#include "codec/entropy/rans/kernels/lanes_v4_vbmi.hpp"
#elif defined(__AVX512BW__)
#include "codec/entropy/rans/kernels/lanes_v4.hpp"
#elif defined(__AVX2__)
#include "codec/entropy/rans/kernels/lanes_v3.hpp"
#elif defined(__aarch64__)
#include "codec/entropy/rans/kernels/lanes_neon.hpp"
#else
#define CFCK_SCALAR_LANES
#endif
#include "codec/entropy/rans/kernels/scalar.hpp"
#include "codec/entropy/rans/kernels/symbol_order.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#ifndef CFCK_SCALAR_LANES

// Calls body(0) to body(n - 1) with constants, so that arrays stay in registers.
template <unsigned n, class Body>
CFCK_INLINE void each_constant(Body&& body) {
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<unsigned, i>{}), ...);
  }
  (std::make_index_sequence<n>{});
}

template <unsigned n_sets>
class RansRegisters {
 public:
  RansRegisters(const RansLanes& lanes, RansWords<n_sets>& words) : bounds_(&words) {
    each_constant<n_sets>([&](auto set) {
      states_[set] = LaneStates::load(lanes.states + set * kRansLanes);
      words_[set] = lanes.words[set];
    });
  }

  void store(RansLanes& lanes) const {
    each_constant<n_sets>([&](auto set) {
      states_[set].store(lanes.states + set * kRansLanes);
      lanes.words[set] = bounds_->stored(set, words_[set]);
    });
  }

  std::size_t ready_groups() {
    const std::byte* words[n_sets];
    each_constant<n_sets>([&](auto set) { words[set] = words_[set]; });
    const std::size_t n = bounds_->ready_groups(words);
    each_constant<n_sets>([&](auto set) { words_[set] = words[set]; });
    return n;
  }

  bool in_bounds() const {
    const std::byte* words[n_sets];
    each_constant<n_sets>([&](auto set) { words[set] = words_[set]; });
    return bounds_->in_bounds(words);
  }

#ifdef CFCK_SYMBOL_WORDS
  // Decodes a group of 128 symbols.
  CFCK_INLINE SymbolWords decode_words(const RansDecodeTable& table) {
    if (table.only_symbol < kRansSymbols) [[unlikely]] {
      return SymbolWords::all(table.only_symbol);
    }
    const LaneTable registers(table);
    SymbolWords symbols;
#if !defined(__AVX512VBMI2__)
    each_constant<2>([&](auto pair) __attribute__((always_inline)) {
      constexpr unsigned a = 2 * pair % n_sets;
      constexpr unsigned b = (2 * pair + 1) % n_sets;
      symbols.pairs[pair] =
          decode_two_steps(states_[a], states_[b], registers, words_[a], words_[b]);
    });
#else
    each_constant<kGroupSize / kRansLanes>([&](auto step) __attribute__((always_inline)) {
      constexpr unsigned set = step % n_sets;
      symbols.of[step] = decode_step(states_[set], registers, constants_, words_[set]);
    });
#endif
    return symbols;
  }
#endif

  // Decodes a group of 128 symbols.
  CFCK_INLINE void decode_group(const RansDecodeTable& table, std::uint8_t* symbols) {
#ifdef CFCK_SYMBOL_WORDS
    decode_words(table).store(symbols);
#else
    if (table.only_symbol < kRansSymbols) [[unlikely]] {
      std::memset(symbols, static_cast<int>(table.only_symbol), kGroupSize);
      return;
    }
    const LaneTable registers(table);
    each_constant<2>([&](auto pair) __attribute__((always_inline)) {
      constexpr unsigned a = 2 * pair % n_sets;
      constexpr unsigned b = (2 * pair + 1) % n_sets;
      decode_two_steps(states_[a], states_[b], registers, words_[a], words_[b],
                       symbols + 64 * pair);
    });
#endif
  }

  // Decodes a group of 128 symbols into the order of their values.
  CFCK_INLINE void decode_values(const RansDecodeTable& table, std::uint8_t* symbols) {
#if defined(CFCK_SYMBOL_WORDS) && !defined(__AVX512VBMI2__)
    const SymbolWords words = decode_words(table);
    _mm512_storeu_si512(symbols, words.first_values());
    _mm512_storeu_si512(symbols + 64, words.last_values());
#else
    decode_group(table, symbols);
    to_value_order(symbols, symbols);
#endif
  }

 protected:
  LaneStates states_[n_sets];
  const std::byte* words_[n_sets];
  RansWords<n_sets>* bounds_;
#if defined(__AVX512VBMI2__)
  StepConstants constants_;
#endif
};

#else  // symbol after symbol

template <unsigned n_sets>
class RansRegisters {
 public:
  RansRegisters(const RansLanes& lanes, RansWords<n_sets>& words) : bounds_(&words) {
    std::memcpy(states_, lanes.states, sizeof(states_));
    std::memcpy(words_, lanes.words, sizeof(words_));
  }

  void store(RansLanes& lanes) const {
    std::memcpy(lanes.states, states_, sizeof(states_));
    for (unsigned set = 0; set < n_sets; ++set) {
      lanes.words[set] = bounds_->stored(set, words_[set]);
    }
  }

  std::size_t ready_groups() { return bounds_->ready_groups(words_); }
  bool in_bounds() const { return bounds_->in_bounds(words_); }

  void decode_values(const RansDecodeTable& table, std::uint8_t* symbols) {
    decode_group(table, symbols);
    to_value_order(symbols, symbols);
  }
  // Decodes a group of 128 symbols.
  void decode_group(const RansDecodeTable& table, std::uint8_t* symbols) {
    for (unsigned step = 0; step < kGroupSize / kRansLanes; ++step) {
      std::uint32_t* const states = states_ + step % n_sets * kRansLanes;
      const std::byte* words = words_[step % n_sets];
      for (unsigned lane = 0; lane < kRansLanes; ++lane) {
        const std::uint32_t next = next_state(states[lane], table, symbols[lane]);
        std::uint16_t word;
        std::memcpy(&word, words, sizeof(word));
        // This has no branch, because nothing could predict it.
        const std::uint32_t takes = (next - kRansLowest) >> 31;
        states[lane] = next << (16 * takes) | (word & (0 - takes));
        words += 2 * takes;
      }
      words_[step % n_sets] = words;
      symbols += kRansLanes;
    }
  }

 private:
  std::uint32_t states_[n_sets * kRansLanes];
  const std::byte* words_[n_sets];
  RansWords<n_sets>* bounds_;
};

#endif

template <unsigned n_sets>
bool decode_run(RansLanes& lanes, const RansDecodeTable* const* tables, const SymbolRun& run) {
  const std::size_t n_groups = run.n_symbols / kGroupSize;
  if (n_groups != 0) {
    RansWords<n_sets> words(lanes);
    RansRegisters<n_sets> x(lanes, words);
    for (std::size_t group = 0; group < n_groups;) {
      const std::size_t ready = x.ready_groups();
      const std::size_t end = group + (ready < n_groups - group ? ready : n_groups - group);
      for (; group < end; ++group) {
        x.decode_group(*tables[run.place_of(group)], run.symbols + group * kGroupSize);
      }
      if (!x.in_bounds()) {
        return false;
      }
    }
    x.store(lanes);
  }
  const auto left = static_cast<unsigned>(run.n_symbols % kGroupSize);
  return left == 0 || decode_group(lanes, *tables[run.place_of(n_groups)], left,
                                   run.symbols + n_groups * kGroupSize);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
