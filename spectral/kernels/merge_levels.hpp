// Turns symbols, parity bits and raw bits into levels and their products with the step
// (spectral/spec.md, sections 4 and 5.3).
#pragma once

#include "codec/entropy/rans/kernels/shifted_bytes.hpp"
#include "codec/entropy/rans/kernels/trellis.hpp"
#include "codec/indices/escape_bits.hpp"
#include "codec/indices/index_lanes.hpp"
#include "spectral/kernels/index_planes.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/level_steps.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kMaxMergeLanes = 128;

// Levels of groups with at most this many low bits fit bytes.
inline constexpr unsigned kByteLowBits = 2;

// The parts of one group of n values. Planes are read for n values only.
struct GroupParts {
  unsigned low_bits = 0;
  unsigned n = 0;
  const std::uint8_t* symbols = nullptr;
  const std::byte* path = nullptr;  // nullptr: symbols have the parity bits
  const std::byte* raw = nullptr;
};

// The quantisers of the lanes, value after value.
class QuantiserWalk {
 public:
  QuantiserWalk(const Trellis& trellis, unsigned n_lanes) : trellis_(trellis), n_lanes_(n_lanes) {}

  void take(const GroupParts& group, std::uint8_t* quantisers) {
    choose_tables(trellis_, group.symbols, group.path, group.n, n_lanes_, states_, quantisers);
  }

 private:
  const Trellis& trellis_;
  const unsigned n_lanes_;
  std::uint8_t states_[kMaxMergeLanes] = {};
};

// Computes levels value by value. `has_trellis`: there are two quantisers.
inline void levels_of_group(const GroupParts& group, bool has_trellis,
                            const std::uint8_t* quantisers, std::int32_t* levels) {
  std::uint32_t low[kGroupSize] = {};
  std::uint32_t lowest[kGroupSize] = {};
  if (group.low_bits > 1) {
    (void)read_planes(group.raw, group.low_bits - 1, group.n, low);
  }
  if (group.low_bits > 0) {
    (void)read_planes(group.path, 1, group.n, lowest);
  }
  // Local copies, since levels might be stored over the parts.
  const std::uint8_t* const symbols = group.symbols;
  const unsigned low_bits = group.low_bits;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::int32_t index = index_of_parts(symbols[i], low_bits, low[i], lowest[i]);
    levels[i] = merged_level(index, has_trellis, quantisers[i]);
  }
}

template <class T, class Level>
inline void scale_levels(const Level* levels, T step, T* values) {
  for (unsigned i = 0; i < kGroupSize; ++i) {
    values[i] = static_cast<T>(levels[i]) * step;
  }
}

#if defined(__AVX2__)

// Steps of 32 lanes through a trellis. Their states are bytes, initially 0.
class TableSteps {
 public:
  explicit TableSteps(const Trellis& trellis) {
    alignas(16) std::uint8_t next[16] = {};
    alignas(16) std::uint8_t second[16] = {};
    for (unsigned i = 0; i < 2 * kMaxTableStates; ++i) {
      next[i] = static_cast<std::uint8_t>(2 * trellis.next[i / 2][i % 2]);
      second[i] = trellis.table(i / 2) != 0 ? 0xff : 0;
    }
    next_ = table_of(next);
    second_ = table_of(second);
  }

  // Returns ones for the second quantiser, and advances the states by the lowest bits of `path`.
  CFCK_INLINE __m256i take(__m256i& states, __m256i path) const {
    const __m256i quantisers = _mm256_shuffle_epi8(second_, states);
    const __m256i parity = _mm256_and_si256(path, _mm256_set1_epi8(1));
    states = _mm256_shuffle_epi8(next_, _mm256_or_si256(states, parity));
    return quantisers;
  }

 private:
  static __m256i table_of(const std::uint8_t* bytes) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  __m256i next_;    // twice the next states, by twice the state and the parity bit
  __m256i second_;  // by twice the state: ones where it has the second quantiser
};

// Steps of 32 lanes through kTrellis64.
struct ShiftedSteps {
  explicit ShiftedSteps(const Trellis&) {}

  CFCK_INLINE __m256i take(__m256i& states, __m256i path) const {
    const __m256i second = second_of_shifted(states);
    states = next_shifted(states, second, path);
    return second;
  }
};

// Parity bits and levels of 32 lanes at a time.
template <class Steps>
class LaneWalk {
 public:
  static constexpr unsigned kStep = 32;

  LaneWalk(const Trellis& trellis, unsigned n_lanes) : steps_(trellis), n_lanes_(n_lanes) {}

  // Writes quantisers as bytes, not 0 for the second, for whole groups.
  void take(const GroupParts& group, std::uint8_t* quantisers) {
    for (unsigned i = 0; i < kGroupSize; i += kStep) {
      store(quantisers + i, advance(i, path_of_lanes(group, i)));
    }
  }

  // Writes the levels of a group with at most kByteLowBits low bits.
  void take_levels(const GroupParts& group, std::int8_t* levels) {
    for (unsigned i = 0; i < kGroupSize; i += kStep) {
      const __m256i symbols = load(group.symbols + i);
      __m256i index = _mm256_sub_epi8(symbols, _mm256_set1_epi8(kSpectralZero));
      if (group.low_bits > 1) {
        index = twice_plus(index, bits_of(group.raw + i / 8));
      }
      __m256i path = symbols;
      if (group.low_bits > 0) {
        path = bits_of(group.path + i / 8);
        index = twice_plus(index, path);
      }
      const __m256i second = advance(i, path);
      store(levels + i,
            _mm256_add_epi8(_mm256_add_epi8(index, index), _mm256_sign_epi8(second, index)));
    }
  }

 private:
  static __m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store(void* to, __m256i lanes) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), lanes);
  }
  // Expands 32 bits to bytes that are 0 or -1.
  static __m256i bits_of(const std::byte* plane) {
    const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2,
                                             2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    int word;
    __builtin_memcpy(&word, plane, sizeof(word));
    const __m256i spread =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of), bit_of);
    return _mm256_cmpeq_epi8(spread, bit_of);
  }
  static __m256i twice_plus(__m256i index, __m256i bits) {
    return _mm256_sub_epi8(_mm256_add_epi8(index, index), bits);
  }
  static __m256i path_of_lanes(const GroupParts& group, unsigned i) {
    return group.path == nullptr ? load(group.symbols + i) : bits_of(group.path + i / 8);
  }

  // Returns the quantisers of 32 lanes, which then advance by the lowest bits of `path`.
  __m256i advance(unsigned i, __m256i path) {
    return steps_.take(states_[i % n_lanes_ / kStep], path);
  }

  const Steps steps_;
  const unsigned n_lanes_;
  __m256i states_[kMaxMergeLanes / kStep] = {};
};

using TableWalk = LaneWalk<TableSteps>;
using ShiftedWalk = LaneWalk<ShiftedSteps>;

#else

using TableWalk = QuantiserWalk;
using ShiftedWalk = QuantiserWalk;

#endif

// Finds the symbols of a group that are escapes; false for invalid symbols.
inline bool find_escapes(const std::uint8_t* symbols, unsigned n, EscapeBits& escaped) {
  std::uint8_t all = 0;
  for (unsigned i = 0; i < n; ++i) {
    all = static_cast<std::uint8_t>(all | symbols[i]);
  }
  if (all >= 2 * kSpectralZero) {
    return false;
  }
#if defined(CFCK_HAS_INDEX_LANES)
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    escaped.words[i / 64] |= ByteLanes::load(symbols + i).zero_bits() << (i % 64);
  }
#else
  for (unsigned i = 0; i < kGroupSize; ++i) {
    escaped.words[i / 64] |= std::uint64_t{symbols[i] == kSpectralEscape} << (i % 64);
  }
#endif
  static_assert(kSpectralEscape == 0);
  escaped.keep(n);
  return true;
}

template <class T, class Walk>
class LevelMerge {
 public:
  LevelMerge(SpectralMerge& from, T step)
      : from_(from),
        step_(step),
        has_trellis_(from.n_states != 1),
        walk_(has_trellis_ ? *trellis_of(from.n_states) : kTrellis8, from.n_lanes) {}

  bool run(T* values) {
    for (std::size_t first = 0; first < from_.n_values; first += kGroupSize) {
      if (!take(from_.groups[first / kGroupSize], group_values(from_.n_values - first),
                values + first)) {
        return false;
      }
    }
    return true;
  }

  // Takes the next group, of n values.
  bool take(const GroupCode& group, unsigned n, T* values) {
    if (group.kind == GroupKind::kAllZero) {
      __builtin_memset(values, 0, n * sizeof(T));
      return true;
    }
    if (n == kGroupSize) {
      return merge(group, n, values);
    }
    T workspace[kGroupSize];
    const bool fits = merge(group, n, workspace);
    __builtin_memcpy(values, workspace, n * sizeof(T));
    return fits;
  }

 private:
  // `values` has space for a whole group.
  bool merge(const GroupCode& group, unsigned n, T* values) {
    const unsigned low_bits = kSymbolCodes.of[group.scale_bin].low_bits;
    const unsigned plane_bytes = (n + 7) / 8;
    GroupParts parts{low_bits, n, from_.symbols, low_bits != 0 ? from_.path : nullptr, from_.raw};
    EscapeBits escaped;
    if (!find_escapes(parts.symbols, n, escaped)) {
      return false;
    }
    std::byte padded[(kByteLowBits + 1) * kPlaneBytes] = {};
    from_.symbols += n;
    from_.path += low_bits != 0 ? plane_bytes : 0;
    from_.raw += low_bits > 1 ? (low_bits - 1) * plane_bytes : 0;
    if (n < kGroupSize) {
      pad_planes(parts, padded);
    }
    merge_parts(parts, values);
    return escaped.each([&](unsigned i) {
      if (from_.n_escapes == 0) {
        return false;
      }
      --from_.n_escapes;
      values[i] = static_cast<T>(*from_.escapes++) * step_;
      return true;
    });
  }

  // Vectors read whole planes: of the path, and where there is only one, of the raw bits.
  static void pad_planes(GroupParts& parts, std::byte* padded) {
    const unsigned plane_bytes = (parts.n + 7) / 8;
    if (parts.path != nullptr) {
      __builtin_memcpy(padded, parts.path, plane_bytes);
      parts.path = padded;
    }
    if (parts.low_bits == kByteLowBits) {
      __builtin_memcpy(padded + kPlaneBytes, parts.raw, plane_bytes);
      parts.raw = padded + kPlaneBytes;
    }
  }

  void merge_parts(const GroupParts& parts, T* values) {
    alignas(64) std::uint8_t quantisers[kGroupSize] = {};
#if defined(__AVX2__)
    if (has_trellis_ && parts.low_bits <= kByteLowBits) {
      alignas(64) std::int8_t levels[kGroupSize];
      walk_.take_levels(parts, levels);
      return scale_levels(levels, step_, values);
    }
#endif
    if (has_trellis_) {
      walk_.take(parts, quantisers);
    }
    std::int32_t levels[kGroupSize];
    levels_of_group(parts, has_trellis_, quantisers, levels);
    scale_levels(levels, step_, values);
  }

  SpectralMerge& from_;
  const T step_;
  const bool has_trellis_;
  Walk walk_;
};

template <class T>
bool merge_values(SpectralMerge& from, T step, T* values) {
  return from.n_states == kShiftedStates ? LevelMerge<T, ShiftedWalk>(from, step).run(values)
                                         : LevelMerge<T, TableWalk>(from, step).run(values);
}

#if defined(__AVX2__)

// Merges values from symbols that the lanes still hold.
template <unsigned n_sets, class Choices, class Walk>
bool decode_and_merge(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                      const Trellis& trellis, SpectralMerge& from, float step, float* values) {
  alignas(64) std::uint8_t symbols[kGroupSize] = {};
  std::uint8_t states[kMaxMergeLanes] = {};
  LevelMerge<float, Walk> merge(from, step);
  const std::size_t n_groups = from.n_values / kGroupSize;
  {
    RansWords<n_sets> words(lanes);
    RansTrellisRegisters<n_sets, Choices> x(lanes, words, trellis, states);
    for (std::size_t g = 0; g < n_groups;) {
      const std::size_t ready = x.ready_groups();
      const std::size_t end = g + (ready < n_groups - g ? ready : n_groups - g);
      for (; g < end; ++g) {
        const GroupCode group = from.groups[g];
        if (group.kind != GroupKind::kAllZero) {
          const std::byte* path = from.path;
          x.decode_group(tables[kSymbolCodes.of[group.scale_bin].table], path, symbols);
          from.symbols = symbols;
        }
        if (!merge.take(group, kGroupSize, values + g * kGroupSize)) {
          return false;
        }
      }
      if (!x.in_bounds()) {
        return false;
      }
    }
    x.store(lanes, states);
  }
  const auto left = static_cast<unsigned>(from.n_values % kGroupSize);
  if (left == 0) {
    return true;
  }
  const GroupCode group = from.groups[n_groups];
  from.symbols = symbols;
  return (group.kind == GroupKind::kAllZero ||
          decode_group(lanes, tables[kSymbolCodes.of[group.scale_bin].table], trellis, states, left,
                       from.path, symbols)) &&
         merge.take(group, left, values + n_groups * kGroupSize);
}

template <class Choices, class Walk>
bool decode_floats_with(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                        const Trellis& trellis, SpectralMerge& from, float step, float* values) {
  const auto decode = lanes.n_sets == 4   ? &decode_and_merge<4, Choices, Walk>
                      : lanes.n_sets == 2 ? &decode_and_merge<2, Choices, Walk>
                                          : &decode_and_merge<1, Choices, Walk>;
  return decode(lanes, tables, trellis, from, step, values);
}

inline bool decode_floats(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                          const Trellis& trellis, SpectralMerge& from, float step, float* values) {
  const auto decode = is_shifted(trellis) ? &decode_floats_with<ShiftedChoices, ShiftedWalk>
                                          : &decode_floats_with<LaneChoices, TableWalk>;
  return decode(lanes, tables, trellis, from, step, values);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
