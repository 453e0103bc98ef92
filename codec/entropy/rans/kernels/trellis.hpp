// Coding of runs with two tables for each group, between which lanes choose (codec/entropy/rans.md,
// section 1).
#pragma once

#include "codec/entropy/rans/kernels/encode.hpp"
#if defined(__AVX512BW__)
#include "codec/entropy/rans/kernels/trellis_v4.hpp"
#elif defined(__AVX2__)
#include "codec/entropy/rans/kernels/trellis_v3.hpp"
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX2__)

// RansRegisters with the trellis states of the lanes. `Choices` is LaneChoices, or, for kTrellis64,
// ShiftedChoices.
template <unsigned n_sets, class Choices>
class RansTrellisRegisters : public RansRegisters<n_sets> {
 public:
  RansTrellisRegisters(const RansLanes& lanes, RansWords<n_sets>& words, const Trellis& trellis,
                       const std::uint8_t* trellis_states)
      : RansRegisters<n_sets>(lanes, words) {
    each_constant<n_sets>([&](auto set) {
      choices_[set] = Choices::load(trellis, trellis_states + set * kRansLanes);
    });
  }

  void store(RansLanes& lanes, std::uint8_t* trellis_states) const {
    RansRegisters<n_sets>::store(lanes);
    each_constant<n_sets>(
        [&](auto set) { choices_[set].store(trellis_states + set * kRansLanes); });
  }

  CFCK_INLINE void decode_group(const RansTablePair<RansDecodeTable>& tables,
                                const std::byte*& parity_bits, std::uint8_t* symbols) {
    if (tables.has_parity_bits) {
      decode_symbols(tables, GivenPaths(parity_bits), symbols);
      parity_bits += kGroupSize / 8;
    } else {
      decode_symbols(tables, SymbolPaths(), symbols);
    }
  }

 private:
  template <class Paths>
  CFCK_INLINE void decode_symbols(const RansTablePair<RansDecodeTable>& tables, Paths paths,
                                  std::uint8_t* symbols) {
    const LaneTablePair registers(tables);
    each_constant<2>([&](auto pair) __attribute__((always_inline)) {
      constexpr unsigned a = 2 * pair % n_sets;
      constexpr unsigned b = (2 * pair + 1) % n_sets;
      decode_two_steps(this->states_[a], this->states_[b], registers, choices_[a], choices_[b],
                       paths.template of<2 * pair>(), this->words_[a], this->words_[b],
                       symbols + 64 * pair);
    });
  }

  Choices choices_[n_sets];
};

// Decodes the whole groups of a run.
template <unsigned n_sets, class Choices>
bool decode_chosen_groups(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                          const Trellis& trellis, std::uint8_t* trellis_states,
                          const SymbolRun& run, const std::byte*& parity_bits) {
  const std::size_t n_groups = run.n_symbols / kGroupSize;
  RansWords<n_sets> words(lanes);
  RansTrellisRegisters<n_sets, Choices> x(lanes, words, trellis, trellis_states);
  for (std::size_t group = 0; group < n_groups;) {
    const std::size_t ready = x.ready_groups();
    const std::size_t end = group + (ready < n_groups - group ? ready : n_groups - group);
    for (; group < end; ++group) {
      x.decode_group(tables[run.place_of(group)], parity_bits, run.symbols + group * kGroupSize);
    }
    if (!x.in_bounds()) {
      return false;
    }
  }
  x.store(lanes, trellis_states);
  return true;
}

template <unsigned n_sets>
bool decode_chosen_groups(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                          const Trellis& trellis, std::uint8_t* trellis_states,
                          const SymbolRun& run, const std::byte*& parity_bits) {
  const auto decode = is_shifted(trellis) ? &decode_chosen_groups<n_sets, ShiftedChoices>
                                          : &decode_chosen_groups<n_sets, LaneChoices>;
  return decode(lanes, tables, trellis, trellis_states, run, parity_bits);
}

#else

template <unsigned>
bool decode_chosen_groups(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                          const Trellis& trellis, std::uint8_t* trellis_states,
                          const SymbolRun& run, const std::byte*& parity_bits) {
  for (std::size_t group = 0; group < run.n_symbols / kGroupSize; ++group) {
    const RansTablePair<RansDecodeTable>& pair = tables[run.place_of(group)];
    if (!decode_group(lanes, pair, trellis, trellis_states, kGroupSize, parity_bits,
                      run.symbols + group * kGroupSize)) {
      return false;
    }
    parity_bits += pair.has_parity_bits ? kGroupSize / 8 : 0;
  }
  return true;
}

#endif

inline bool decode_chosen(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                          const Trellis& trellis, std::uint8_t* trellis_states,
                          const SymbolRun& run, const std::byte* parity_bits) {
  const auto decode_groups = lanes.n_sets == 4   ? &decode_chosen_groups<4>
                             : lanes.n_sets == 2 ? &decode_chosen_groups<2>
                                                 : &decode_chosen_groups<1>;
  const std::size_t n_groups = run.n_symbols / kGroupSize;
  const auto left = static_cast<unsigned>(run.n_symbols % kGroupSize);
  return (n_groups == 0 ||
          decode_groups(lanes, tables, trellis, trellis_states, run, parity_bits)) &&
         (left == 0 || decode_group(lanes, tables[run.place_of(n_groups)], trellis, trellis_states,
                                    left, parity_bits, run.symbols + n_groups * kGroupSize));
}

// Encodes the first groups of a run, backwards, in vectors where there is code for them.
template <unsigned n_sets>
void encode_chosen_groups(const SymbolRun& run, const std::uint8_t* choices,
                          const RansTablePair<RansEncodeTable>* tables, std::size_t n_groups,
                          std::uint32_t* states, std::uint16_t** ends) {
#if defined(__AVX512BW__)
  RansEncodeRegisters<n_sets> x(states, ends);
  for (std::size_t group = n_groups; group-- > 0;) {
    x.encode_group(tables[run.place_of(group)], run.symbols + group * kGroupSize,
                   choices + group * kGroupSize);
  }
  x.store(states, ends);
#else
  for (std::size_t group = n_groups; group-- > 0;) {
    encode_group(run.symbols + group * kGroupSize, choices + group * kGroupSize, kGroupSize,
                 tables[run.place_of(group)], n_sets, states, ends);
  }
#endif
}

inline void encode_chosen(const SymbolRun& run, const std::uint8_t* choices,
                          const RansTablePair<RansEncodeTable>* tables, unsigned n_sets,
                          std::uint32_t* states, std::uint16_t** ends) {
  const std::size_t n_groups = run.n_symbols / kGroupSize;
  const auto left = static_cast<unsigned>(run.n_symbols % kGroupSize);
  if (left != 0) {
    encode_group(run.symbols + n_groups * kGroupSize, choices + n_groups * kGroupSize, left,
                 tables[run.place_of(n_groups)], n_sets, states, ends);
  }
  const auto encode_groups = n_sets == 4   ? &encode_chosen_groups<4>
                             : n_sets == 2 ? &encode_chosen_groups<2>
                                           : &encode_chosen_groups<1>;
  encode_groups(run, choices, tables, n_groups, states, ends);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
