// Codes into classes, symbols, low bits and escapes, and back
// (codec/direct/spec.md, section 6).
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/direct/direct_kernels.hpp"
#include "codec/symboliser/byte_planes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// 29 + floor(4 * log2(sum / n)), at least 1. Requires: 0 < sum < 2^38, n <= 128.
inline unsigned class_of_mean(std::uint64_t sum, unsigned n) {
  const std::uint64_t mean = (sum << 16) / n;
  const int top = std::bit_width(mean) - 1;
  const std::uint64_t fraction = top >= 15 ? mean >> (top - 15) : mean << (15 - top);
  // 2^15 times 2^(1/4), 2^(1/2), 2^(3/4), rounded up.
  const int quarter = (fraction >= 38968) + (fraction >= 46341) + (fraction >= 55109);
  return static_cast<unsigned>(std::clamp(static_cast<int>(kClassOfOne) + 4 * (top - 16) + quarter,
                                          1, static_cast<int>(kMaxDirectClass)));
}

// The sum of the magnitudes, none counted as more than `limit`.
template <class Sum>
inline std::uint64_t clamped_sum(const std::uint32_t* magnitudes, std::uint32_t limit) {
  Sum sum = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    sum += magnitudes[i] < limit ? magnitudes[i] : limit;
  }
  return sum;
}

// A few large codes do not move the class: they count as eight times the mean.
inline unsigned class_of_group(const std::int32_t* codes, unsigned n) {
  std::uint32_t magnitudes[kGroupSize];
  std::uint32_t in_use = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    // The magnitude of kExact is the only one with bit 31.
    const std::int32_t sign = codes[i] >> 31;
    magnitudes[i] =
        (static_cast<std::uint32_t>(codes[i] ^ sign) - static_cast<std::uint32_t>(sign)) &
        0x7fffffffu;
    in_use |= magnitudes[i];
  }
  if (in_use == 0) {
    return 1;
  }
  // Sums of small magnitudes fit 32 bits, which vectorises better.
  const bool small = in_use < std::uint32_t{1} << 24;
  const auto sum_below = [&](std::uint32_t limit) {
    return small ? clamped_sum<std::uint32_t>(magnitudes, limit)
                 : clamped_sum<std::uint64_t>(magnitudes, limit);
  };
  const std::uint64_t limit = 8 * sum_below(UINT32_MAX) / n;
  return class_of_mean(sum_below(static_cast<std::uint32_t>(limit < 1            ? 1
                                                            : limit < UINT32_MAX ? limit
                                                                                 : UINT32_MAX)),
                       n);
}

inline void classify_codes(const std::int32_t* codes, std::size_t n_values, GroupCode* groups) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, n_values - first));
    std::uint32_t in_use = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      in_use |= static_cast<std::uint32_t>(codes[first + i]);
    }
    GroupCode& group = groups[first / kGroupSize];
    group = {};
    group.kind = in_use == 0 ? GroupKind::kAllZero : GroupKind::kValues;
    if (in_use != 0) {
      group.scale_class = static_cast<std::uint16_t>(class_of_group(codes + first, n));
    }
  }
}

// Single codes: symbols, and the low bits of those that do not escape.
inline bool split_single(const std::int32_t* codes, unsigned low_bits, std::uint8_t* symbols,
                         std::uint32_t* low) {
  const std::uint32_t mask = (std::uint32_t{1} << low_bits) - 1;
  unsigned n_escapes = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::uint32_t moved = static_cast<std::uint32_t>(codes[i] >> low_bits) + kReach;
    const bool escapes = moved > 2 * kReach || codes[i] == kExact;
    symbols[i] = static_cast<std::uint8_t>(escapes ? 0u : moved + 1);
    low[i] = escapes ? 0u : static_cast<std::uint32_t>(codes[i]) & mask;
    n_escapes += escapes ? 1u : 0u;
  }
  return n_escapes != 0;
}

template <unsigned tuple>
unsigned split_tuples(const std::int32_t* codes, unsigned reach, unsigned n_symbols,
                      std::uint8_t* symbols) {
  const unsigned base = 2 * reach + 1;
  unsigned n_escapes = 0;
  for (unsigned s = 0; s < n_symbols; ++s) {
    unsigned symbol = 0;
    unsigned out = 0;
    for (unsigned j = tuple; j-- > 0;) {
      const std::uint32_t moved = static_cast<std::uint32_t>(codes[s * tuple + j]) + reach;
      out |= moved > 2 * reach ? 1u : 0u;
      symbol = symbol * base + (moved > 2 * reach ? 0u : moved);
    }
    symbols[s] = static_cast<std::uint8_t>(out != 0 ? 0u : symbol + 1);
    n_escapes += out;
  }
  return n_escapes;
}

inline std::byte* write_planes(const std::uint32_t* low, unsigned low_bits, unsigned n,
                               std::byte* to) {
  const std::size_t plane_bytes = (n + 7) / 8;
  for (unsigned end = low_bits; end > 0;) {
    const unsigned n_planes = std::min(end, 8u);
    end -= n_planes;
    std::uint8_t bytes[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(low[i] >> end);
    }
    std::uint8_t planes[8 * kPlaneBytes];
    pack_byte_planes(bytes, n_planes, planes);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::memcpy(to, planes + plane * kPlaneBytes, plane_bytes);
      to += plane_bytes;
    }
  }
  return to;
}

inline const std::byte* read_planes(const std::byte* from, unsigned low_bits, unsigned n,
                                    std::uint32_t* low) {
  const std::size_t plane_bytes = (n + 7) / 8;
  std::memset(low, 0, kGroupSize * sizeof(*low));
  for (unsigned end = low_bits; end > 0;) {
    const unsigned n_planes = std::min(end, 8u);
    end -= n_planes;
    std::uint8_t planes[8 * kPlaneBytes] = {};
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::memcpy(planes + plane * kPlaneBytes, from, plane_bytes);
      from += plane_bytes;
    }
    std::uint8_t bytes[kGroupSize];
    unpack_byte_planes(planes, n_planes, bytes);
    for (unsigned i = 0; i < kGroupSize; ++i) {
      low[i] |= static_cast<std::uint32_t>(bytes[i]) << end;
    }
  }
  return from;
}

inline void split_codes(const std::int32_t* codes, std::size_t n_values, const GroupCode* groups,
                        DirectSplit& to) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const ClassCode code = kClassCodes[groups[first / kGroupSize].scale_class];
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      continue;
    }
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, n_values - first));
    const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
    std::uint8_t*& symbols = to.streams[code.stream];
    // A tuple may reach past the group; what it finds there counts as zero.
    std::int32_t group[kGroupSize + 4] = {};
    std::memcpy(group, codes + first, sizeof(std::int32_t) * n);
    bool escapes = false;
    if (code.tuple == 1) {
      std::uint32_t low[kGroupSize];
      escapes = split_single(group, code.low_bits, symbols, low);
      to.raw = write_planes(low, code.low_bits, n, to.raw);
    } else if (code.tuple == 2) {
      escapes = split_tuples<2>(group, code.reach, n_symbols, symbols) != 0;
    } else if (code.tuple == 3) {
      escapes = split_tuples<3>(group, code.reach, n_symbols, symbols) != 0;
    } else {
      escapes = split_tuples<4>(group, code.reach, n_symbols, symbols) != 0;
    }
    for (unsigned i = 0; escapes && i < n; ++i) {
      if (symbols[i / code.tuple] == 0) {
        *to.escapes++ = group[i];
      }
    }
    symbols += n_symbols;
  }
}

inline bool merge_single(const std::uint8_t* symbols, unsigned low_bits, const std::uint32_t* low,
                         std::int32_t* codes) {
  unsigned n_bad = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::uint32_t high = static_cast<std::uint32_t>(symbols[i]) - (kReach + 1);
    codes[i] = static_cast<std::int32_t>(high << low_bits | low[i]);
    n_bad += symbols[i] > 2 * kReach + 1 ? 1u : 0u;
  }
  // 63 * 2^25 fits 32 bits; with more low bits a code may not, or be kExact or kHidden.
  for (unsigned i = 0; low_bits > 25 && i < kGroupSize; ++i) {
    const bool fits = codes[i] > kHidden && codes[i] >> low_bits == symbols[i] - (kReach + 1);
    n_bad += symbols[i] != 0 && !fits ? 1u : 0u;
  }
  return n_bad == 0;
}

inline bool merge_tuples(const std::uint8_t* symbols, unsigned n_symbols, const ClassCode& code,
                         std::int32_t* codes) {
  const unsigned base = 2u * code.reach + 1;
  bool fits = true;
  for (unsigned s = 0; s < n_symbols; ++s) {
    unsigned symbol = symbols[s] == 0 ? 0u : symbols[s] - 1u;
    for (unsigned j = 0; j < code.tuple; ++j) {
      codes[s * code.tuple + j] =
          static_cast<std::int32_t>(symbol % base) - static_cast<std::int32_t>(code.reach);
      symbol /= base;
    }
    fits = fits && symbol == 0;
  }
  return fits;
}

inline bool merge_codes(std::int32_t* codes, std::size_t n_values, const GroupCode* groups,
                        DirectMerge& from) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, n_values - first));
    std::int32_t group[kGroupSize + 4] = {};
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      std::memcpy(codes + first, group, kGroupSize * sizeof(std::int32_t));
      continue;
    }
    const ClassCode code = kClassCodes[groups[first / kGroupSize].scale_class];
    const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
    const std::uint8_t*& stream = from.streams[code.stream];
    std::uint8_t symbols[kGroupSize];
    std::memset(symbols, kReach + 1, kGroupSize);
    std::memcpy(symbols, stream, n_symbols);
    stream += n_symbols;
    if (code.tuple == 1) {
      std::uint32_t low[kGroupSize];
      from.raw = read_planes(from.raw, code.low_bits, n, low);
      if (!merge_single(symbols, code.low_bits, low, group)) {
        return false;
      }
    } else if (!merge_tuples(symbols, n_symbols, code, group)) {
      return false;
    }
    const bool escapes = std::memchr(symbols, 0, n_symbols) != nullptr;
    for (unsigned i = 0; escapes && i < n; ++i) {
      if (symbols[i / code.tuple] == 0) {
        if (from.n_escapes == 0) {
          return false;
        }
        group[i] = *from.escapes++;
        --from.n_escapes;
      }
    }
    std::memcpy(codes + first, group, kGroupSize * sizeof(std::int32_t));
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
