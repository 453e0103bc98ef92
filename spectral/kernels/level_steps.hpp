// Levels of values from their symbols, low bits and parity bits, value by value and lane by lane
// (spectral/spec.md, sections 4 and 5.3). Devices share this code.
#pragma once

#include <bit>

#include "codec/symboliser/lanes.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/trellis_edges.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// `lowest`: the parity bit of an index with low bits, else 0; `low`: its other low bits.
CFCK_HD inline std::int32_t index_of_parts(std::uint8_t symbol, unsigned low_bits,
                                           std::uint32_t low, std::uint32_t lowest) {
  const std::uint32_t high = static_cast<std::uint32_t>(symbol) - kSpectralZero;
  const unsigned shift = low_bits > 0 ? 1 : 0;
  return static_cast<std::int32_t>(high << low_bits | low << shift | lowest);
}

// Returns the level of an index. `has_trellis`: there are two quantisers.
CFCK_HD inline std::int32_t merged_level(std::int32_t index, bool has_trellis, unsigned quantiser) {
  const std::int32_t sign = (index > 0 ? 1 : 0) - (index < 0 ? 1 : 0);
  // Unsigned, since symbols after the last value of a chunk are arbitrary.
  const auto less = static_cast<std::uint32_t>(quantiser != 0 ? sign : 0);
  return has_trellis ? static_cast<std::int32_t>(2 * static_cast<std::uint32_t>(index) - less)
                     : index;
}

// Returns bit i of a plane.
CFCK_HD inline std::uint32_t bit_of_plane(const std::byte* plane, unsigned i) {
  return static_cast<std::uint32_t>(plane[i / 8]) >> (i % 8) & 1;
}

// Values of one lane, a thread of a device, except those of escapes. With one state lanes are any
// number of threads.
template <unsigned n_states, class T>
class LaneMerge {
 public:
  CFCK_HD LaneMerge(const SpectralMerge& from, unsigned lane, T step)
      : from_(from), lane_(lane), step_(step) {}

  CFCK_HD void run(T* values) {
    const std::uint8_t* symbols = from_.symbols;
    const std::byte* path = from_.path;
    const std::byte* raw = from_.raw;
    for (std::size_t first = 0; first < from_.n_values; first += kGroupSize) {
      const GroupCode group = from_.groups[first / kGroupSize];
      const unsigned n = group_values(from_.n_values - first);
      if (group.kind == GroupKind::kAllZero) {
        for (unsigned i = lane_; i < n; i += from_.n_lanes) {
          values[first + i] = 0;
        }
        continue;
      }
      const unsigned low_bits = make_symbol_code(group.scale_bin).low_bits;
      const unsigned plane_bytes = (n + 7) / 8;
      for (unsigned i = lane_; i < n; i += from_.n_lanes) {
        const std::uint32_t lowest = low_bits > 0 ? bit_of_plane(path, i) : 0;
        std::uint32_t low = 0;
        for (unsigned plane = 0; plane + 1 < low_bits; ++plane) {
          low = low << 1 | bit_of_plane(raw + plane * plane_bytes, i);
        }
        const std::int32_t index = index_of_parts(symbols[i], low_bits, low, lowest);
        const unsigned quantiser = choose(low_bits > 0 ? lowest : symbols[i] & 1u);
        values[first + i] = static_cast<T>(merged_level(index, n_states != 1, quantiser)) * step_;
      }
      symbols += n;
      path += low_bits > 0 ? plane_bytes : 0;
      raw += low_bits > 1 ? (low_bits - 1) * plane_bytes : 0;
    }
  }

 private:
  // Returns the quantiser of the lane, which then advances by a parity bit.
  CFCK_HD unsigned choose(unsigned parity) {
    if constexpr (n_states == 1) {
      return 0;
    } else {
      const unsigned quantiser = quantiser_of<n_states>(state_);
      state_ = next_state<n_states>(state_, parity);
      return quantiser;
    }
  }

  const SpectralMerge& from_;
  const unsigned lane_;
  const T step_;
  unsigned state_ = 0;
};

// Counts the bits of a group below value i.
CFCK_HD inline unsigned count_below(const std::uint32_t (&words)[kGroupSize / 32], unsigned i) {
  unsigned count = 0;
  for (unsigned w = 0; w < kGroupSize / 32; ++w) {
    const std::uint32_t below = i < 32 * w         ? 0
                                : i >= 32 * w + 32 ? ~std::uint32_t{0}
                                                   : (std::uint32_t{1} << (i % 32)) - 1;
    count += static_cast<unsigned>(std::popcount(words[w] & below));
  }
  return count;
}

// Puts the escapes where they belong. Lanes are those of a policy: a warp of a device. False if
// symbols and escapes do not fit each other, or a symbol is invalid.
template <class Lanes, class T>
CFCK_HD bool place_escapes(const SpectralMerge& from, T step, T* values) {
  const std::uint8_t* symbols = from.symbols;
  const std::int32_t* escapes = from.escapes;
  std::size_t n_left = from.n_escapes;
  for (std::size_t first = 0; first < from.n_values; first += kGroupSize) {
    if (from.groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      continue;
    }
    const unsigned n = group_values(from.n_values - first);
    std::uint32_t escaped[kGroupSize / 32];
    std::uint32_t invalid[kGroupSize / 32];
    Lanes::ballot(escaped, [&](unsigned i) { return i < n && symbols[i] == kSpectralEscape; });
    Lanes::ballot(invalid, [&](unsigned i) { return i < n && symbols[i] >= 2 * kSpectralZero; });
    const unsigned n_escaped = count_below(escaped, kGroupSize);
    if (count_below(invalid, kGroupSize) != 0 || n_escaped > n_left) {
      return false;
    }
    if (n_escaped != 0) {
      Lanes::each([&](unsigned i) {
        if ((escaped[i / 32] >> (i % 32) & 1) != 0) {
          values[first + i] = static_cast<T>(escapes[count_below(escaped, i)]) * step;
        }
      });
    }
    escapes += n_escaped;
    n_left -= n_escaped;
    symbols += n;
  }
  return n_left == 0;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
