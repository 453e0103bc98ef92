// Encoding of runs; whole groups are coded in vectors where the CPU level has code for it.
#pragma once

#include "codec/entropy/rans/kernels/lanes.hpp"
#if defined(__AVX512VBMI2__)
#include "codec/entropy/rans/kernels/encode_v4_vbmi.hpp"
#elif defined(__AVX512BW__)
#include "codec/entropy/rans/kernels/encode_v4.hpp"
#elif defined(__AVX2__)
#include "codec/entropy/rans/kernels/encode_v3.hpp"
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX2__)

template <unsigned n_sets>
class RansEncodeRegisters {
 public:
  RansEncodeRegisters(const std::uint32_t* states, std::uint16_t* const* ends) {
    each_constant<n_sets>([&](auto set) {
      states_[set] = LaneStates::load(states + set * kRansLanes);
      ends_[set] = ends[set];
    });
  }

  void store(std::uint32_t* states, std::uint16_t** ends) const {
    each_constant<n_sets>([&](auto set) {
      states_[set].store(states + set * kRansLanes);
      ends[set] = ends_[set];
    });
  }

  CFCK_INLINE void encode_group(const RansEncodeTable& table, const std::uint8_t* symbols) {
    if (table.only_symbol < kRansSymbols) {
      return;
    }
    const EncodeLaneTable registers(table);
    each_constant<kGroupSize / kRansLanes>([&](auto i) __attribute__((always_inline)) {
      constexpr unsigned step = kGroupSize / kRansLanes - 1 - i;
      encode_step(states_[step % n_sets], registers, symbols + step * kRansLanes,
                  ends_[step % n_sets]);
    });
  }

#if defined(__AVX512BW__) && !defined(__AVX512VBMI2__)
  // Encodes a group with two tables; `choices` are those of choose_tables().
  CFCK_INLINE void encode_group(const RansTablePair<RansEncodeTable>& tables,
                                const std::uint8_t* symbols, const std::uint8_t* choices) {
    const EncodeLaneTable first(*tables.of[0]);
    const EncodeLaneTable second(*tables.of[1]);
    each_constant<kGroupSize / kRansLanes>([&](auto i) __attribute__((always_inline)) {
      constexpr unsigned step = kGroupSize / kRansLanes - 1 - i;
      encode_step(states_[step % n_sets], first, second, symbols + step * kRansLanes,
                  choices + step * kRansLanes, ends_[step % n_sets]);
    });
  }
#endif

 private:
  LaneStates states_[n_sets];
  std::uint16_t* ends_[n_sets];
};

template <unsigned n_sets>
void encode_runs_in_registers(std::span<const SymbolRun> runs, const RansEncodeTable* const* tables,
                              std::uint32_t* states, std::uint16_t** ends) {
  for (std::size_t r = runs.size(); r-- > 0;) {
    const SymbolRun& run = runs[r];
    std::size_t group = run.n_symbols / kGroupSize;
    const auto left = static_cast<unsigned>(run.n_symbols % kGroupSize);
    if (left != 0) {
      encode_group(run.symbols + group * kGroupSize, left, *tables[run.place_of(group)], n_sets,
                   states, ends);
    }
    if (group != 0) {
      RansEncodeRegisters<n_sets> x(states, ends);
      while (group-- > 0) {
        x.encode_group(*tables[run.place_of(group)], run.symbols + group * kGroupSize);
      }
      x.store(states, ends);
    }
  }
}

inline void encode_runs(std::span<const SymbolRun> runs, const RansEncodeTable* const* tables,
                        unsigned n_sets, std::uint32_t* states, std::uint16_t** ends) {
  if (n_sets == 4) {
    encode_runs_in_registers<4>(runs, tables, states, ends);
  } else if (n_sets == 2) {
    encode_runs_in_registers<2>(runs, tables, states, ends);
  } else {
    encode_runs_in_registers<1>(runs, tables, states, ends);
  }
}

#else

inline void encode_runs(std::span<const SymbolRun> runs, const RansEncodeTable* const* tables,
                        unsigned n_sets, std::uint32_t* states, std::uint16_t** ends) {
  encode_runs_scalar(runs, tables, n_sets, states, ends);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
