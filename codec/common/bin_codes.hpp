// The coding of values by bin (codec/direct/spec.md, section 6).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/bit_width.hpp"
#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

// Indices have a magnitude of at most kMaxIndex; residuals at most twice that.
inline constexpr std::int32_t kMaxIndex = (1 << 30) - 1;
// These stand in place of an index: the value is kept exactly, or masked.
inline constexpr std::int32_t kExact = INT32_MIN;
inline constexpr std::int32_t kMasked = INT32_MIN + 1;

// Bin C > 0 means a mean magnitude from 2^((C-29)/4) up to 2^((C-28)/4).
inline constexpr unsigned kBinOfOne = 29;
inline constexpr unsigned kMaxDirectBin = kBinOfOne + 4 * 31;

// The first bin coded in triples, pairs, single indices, indices with low bits.
inline constexpr unsigned kFirstTriples = 13;
inline constexpr unsigned kFirstPairs = 21;
inline constexpr unsigned kFirstSingle = 30;
inline constexpr unsigned kFirstLowBits = 40;

// Symbol 0 is the escape; the others count up from the minimum index.
inline constexpr std::int32_t kReach = 62;

struct BinCode {
  std::uint8_t tuple = 0;  // indices in one symbol; 0 for groups of zeros
  std::uint8_t reach = 0;  // maximum magnitude of an index in a tuple
  std::uint8_t low_bits = 0;
  std::uint8_t stream = 0;
};

// There is one stream for each bin below kFirstLowBits, then one for each phase.
inline constexpr unsigned kDirectStreams = kFirstLowBits - 1 + kPhases;

constexpr BinCode make_bin_code(unsigned scale_bin) {
  if (scale_bin == 0) {
    return {};
  }
  const auto stream = static_cast<std::uint8_t>(scale_bin - 1);
  if (scale_bin < kFirstTriples) {
    return {4, 1, 0, stream};
  }
  if (scale_bin < kFirstPairs) {
    return {3, 2, 0, stream};
  }
  if (scale_bin < kFirstSingle) {
    return {2, 7, 0, stream};
  }
  if (scale_bin < kFirstLowBits) {
    return {1, kReach, 0, stream};
  }
  const unsigned above = scale_bin - kFirstLowBits;
  return {1, kReach, static_cast<std::uint8_t>(1 + above / kPhases),
          static_cast<std::uint8_t>(kFirstLowBits - 1 + above % kPhases)};
}

// It has no functions, of which there would have to be one for each CPU level.
struct BinCodes {
  BinCode of[kMaxDirectBin + 1];
};
inline constexpr BinCodes kBinCodes = [] {
  BinCodes indices{};
  for (unsigned c = 0; c <= kMaxDirectBin; ++c) {
    indices.of[c] = make_bin_code(c);
  }
  return indices;
}();

// With the stage `rans` every index has a symbol: its high bits, offset, or the escape.
inline constexpr unsigned kSymbolOfZero = 15;
inline constexpr unsigned kSymbolEscape = 31;

// The first bin of each reach, and the first with low bits.
inline constexpr unsigned kFirstReach7 = 13;
inline constexpr unsigned kFirstReach15 = 25;
inline constexpr unsigned kFirstWithLowBits = 36;

// Above this, indices of symbols may not fit the range of indices.
inline constexpr unsigned kMaxSafeLowBits = 26;

struct SymbolCode {
  std::uint8_t reach = 0;
  std::uint8_t low_bits = 0;
  std::uint8_t table = 0;
};

CFCK_HD constexpr SymbolCode make_symbol_code(unsigned scale_bin) {
  if (scale_bin >= kFirstWithLowBits) {
    const unsigned above = scale_bin - kFirstWithLowBits;
    return {15, static_cast<std::uint8_t>(1 + above / kPhases),
            static_cast<std::uint8_t>(kFirstWithLowBits - 1 + above % kPhases)};
  }
  const unsigned reach = scale_bin < kFirstReach7 ? 3 : scale_bin < kFirstReach15 ? 7 : 15;
  return {static_cast<std::uint8_t>(reach), 0,
          static_cast<std::uint8_t>(scale_bin == 0 ? 0 : scale_bin - 1)};
}

struct SymbolCodes {
  SymbolCode of[kMaxDirectBin + 1];
};
inline constexpr SymbolCodes kSymbolCodes = [] {
  SymbolCodes indices{};
  for (unsigned c = 0; c <= kMaxDirectBin; ++c) {
    indices.of[c] = make_symbol_code(c);
  }
  return indices;
}();

inline namespace CFCK_CPU_NAMESPACE {

// Returns the number of values of a group that starts with n_left values left.
constexpr unsigned group_values(std::size_t n_left) {
  return n_left < kGroupSize ? static_cast<unsigned>(n_left) : kGroupSize;
}

// Returns sum / n; almost all groups are whole.
CFCK_HD inline std::uint64_t share_of(std::uint64_t sum, std::uint64_t n) {
  return n == kGroupSize ? sum / kGroupSize : sum / n;
}

// The limit of magnitudes in a sum: eight times the mean.
CFCK_HD inline std::uint32_t limit_of(std::uint64_t sum, unsigned n) {
  const std::uint64_t limit = share_of(8 * sum, n);
  return static_cast<std::uint32_t>(limit < 1 ? 1 : limit < UINT32_MAX ? limit : UINT32_MAX);
}

// Sums of magnitudes below this fit 32 bits.
inline constexpr std::uint32_t kSmallMagnitudes = std::uint32_t{1} << 24;

// Returns 29 + floor(4 * log2(sum / n)), at least 1. Requires: sum < 2^48, 0 < n.
CFCK_HD inline unsigned bin_of_mean(std::uint64_t sum, std::uint64_t n) {
  const std::uint64_t mean = share_of(sum << 16, n);
  if (mean == 0) {
    return 1;
  }
  const int top = static_cast<int>(bit_width_of(mean)) - 1;
  const std::uint64_t fraction = top >= 15 ? mean >> (top - 15) : mean << (15 - top);
  // The limits are 2^15 times 2^(1/4), 2^(1/2), 2^(3/4), rounded up.
  const int quarter = (fraction >= 38968) + (fraction >= 46341) + (fraction >= 55109);
  const int scale_bin = static_cast<int>(kBinOfOne) + 4 * (top - 16) + quarter;
  return scale_bin < 1                                 ? 1
         : scale_bin > static_cast<int>(kMaxDirectBin) ? kMaxDirectBin
                                                       : static_cast<unsigned>(scale_bin);
}

constexpr std::size_t group_symbols(const BinCode& code, std::size_t n_values) {
  return code.tuple == 0 ? 0 : (n_values + code.tuple - 1) / code.tuple;
}

template <class Code>
constexpr std::size_t group_raw_bytes(const Code& code, std::size_t n_values) {
  return packed_bytes(code.low_bits, n_values);
}

}  // namespace CFCK_CPU_NAMESPACE

}  // namespace cfck::codec
