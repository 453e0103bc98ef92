// Splits indices into symbols, low bits and escapes (codec/direct/spec.md, section 6).
#pragma once

#include "codec/direct/kernels/kernels.hpp"
#include "codec/indices/index_lanes.hpp"
#include "codec/indices/low_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Splits single indices: symbols, and the low bits of those that do not escape.
inline bool split_single(const std::int32_t* indices, unsigned low_bits, std::uint8_t* symbols,
                         std::uint32_t* low) {
  const std::uint32_t mask = (std::uint32_t{1} << low_bits) - 1;
  unsigned n_escapes = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::uint32_t moved = static_cast<std::uint32_t>(indices[i] >> low_bits) + kReach;
    const bool escapes = moved > 2 * kReach || indices[i] == kExact;
    symbols[i] = static_cast<std::uint8_t>(escapes ? 0u : moved + 1);
    low[i] = escapes ? 0u : static_cast<std::uint32_t>(indices[i]) & mask;
    n_escapes += escapes ? 1u : 0u;
  }
  return n_escapes != 0;
}

template <unsigned tuple>
unsigned split_tuples(const std::int32_t* indices, unsigned reach, unsigned n_symbols,
                      std::uint8_t* symbols) {
  const unsigned base = 2 * reach + 1;
  unsigned n_escapes = 0;
  for (unsigned s = 0; s < n_symbols; ++s) {
    unsigned symbol = 0;
    unsigned out = 0;
    for (unsigned j = tuple; j-- > 0;) {
      const std::uint32_t moved = static_cast<std::uint32_t>(indices[s * tuple + j]) + reach;
      out |= moved > 2 * reach ? 1u : 0u;
      symbol = symbol * base + (moved > 2 * reach ? 0u : moved);
    }
    symbols[s] = static_cast<std::uint8_t>(out != 0 ? 0u : symbol + 1);
    n_escapes += out;
  }
  return n_escapes;
}

// Splits a group index by index into symbols and low bits: the reference that the lanes must equal.
// Returns whether any index escapes.
inline bool split_group(const std::int32_t* indices, const BinCode& code, unsigned n,
                        std::uint8_t* symbols, std::byte*& raw) {
  const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
  if (code.tuple == 1) {
    std::uint32_t low[kGroupSize];
    const bool escapes = split_single(indices, code.low_bits, symbols, low);
    raw = write_low_bits(low, code.low_bits, n, raw);
    return escapes;
  }
  // A tuple may reach past the group; the values there are taken as zero.
  std::int32_t group[kGroupSize + 4] = {};
  __builtin_memcpy(group, indices, sizeof(std::int32_t) * n);
  return code.tuple == 2   ? split_tuples<2>(group, code.reach, n_symbols, symbols) != 0
         : code.tuple == 3 ? split_tuples<3>(group, code.reach, n_symbols, symbols) != 0
                           : split_tuples<4>(group, code.reach, n_symbols, symbols) != 0;
}

#if defined(CFCK_HAS_INDEX_LANES)

// Above this, kExact shifted right fits a symbol.
inline constexpr unsigned kMaxLaneShift = 24;

// Writes the low bits, zeros for indices whose byte of `high` is above the limit, and moves `raw`
// past them.
inline void write_kept_low_bits(const std::int32_t* indices, const std::uint8_t* high,
                                ByteLanes limit, unsigned low_bits, unsigned n, std::byte*& raw) {
  raw = write_packed(low_bits, n, raw, [&](unsigned shift, std::uint8_t* bytes) {
    for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
      ByteLanes::low_of(indices + i, shift)
          .where_at_most(ByteLanes::load(high + i), limit)
          .store(bytes + i);
    }
  });
}

// Does what split_single() does, with vectors. Requires: low bits are at most kMaxLaneShift.
// Symbols need space for kGroupSize bytes.
inline void split_single_lanes(const std::int32_t* indices, unsigned low_bits, unsigned n,
                               std::uint8_t* symbols, std::byte*& raw) {
  std::uint8_t high[kGroupSize];
  const ByteLanes limit = ByteLanes::all(2 * kReach);
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    const ByteLanes moved = ByteLanes::high_of(indices + i, low_bits) + ByteLanes::all(kReach);
    (moved + ByteLanes::all(1)).where_at_most(moved, limit).store(symbols + i);
    moved.store(high + i);
  }
  write_kept_low_bits(indices, high, limit, low_bits, n, raw);
}

inline void split_tuples_lanes(const std::int32_t* indices, const BinCode& code,
                               std::uint8_t* symbols) {
  // The last three values reach past the group, and so do vectors.
  std::uint8_t moved[kGroupSize + ByteLanes::kCount];
  const ByteLanes reach = ByteLanes::all(code.reach);
  const ByteLanes limit = ByteLanes::all(2u * code.reach);
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    (ByteLanes::high_of(indices + i, 0) + reach).or_ones_above(limit).store(moved + i);
  }
  if (code.tuple == 2) {
    for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
      ByteLanes::load(moved + i).store_pairs(0x0f010f01, 224, symbols + i / 2);
    }
  } else if (code.tuple == 4) {
    for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
      ByteLanes::load(moved + i).store_fours(0x03010301, 0x00090001, 80, symbols + i / 4);
    }
  } else {
    reach.store(moved + kGroupSize);
    constexpr unsigned kUsed = ByteLanes::kCount / 4 * 3;
    for (unsigned i = 0; i < kGroupSize; i += kUsed) {
      ByteLanes::load(moved + i).threes().store_fours(0x00190501, 0x00010001, 124, symbols + i / 3);
    }
  }
}

// Sets the bits of the symbols that are 0.
inline void escape_bits(const std::uint8_t* symbols, unsigned n_symbols, std::uint64_t* bits) {
  bits[0] = bits[1] = 0;
  for (unsigned i = 0; i < n_symbols; i += ByteLanes::kCount) {
    bits[i / 64] |= ByteLanes::load(symbols + i).zero_bits() << (i % 64);
  }
  if (n_symbols % 64 != 0) {
    bits[n_symbols / 64] &= (std::uint64_t{1} << (n_symbols % 64)) - 1;
  }
}

// Calls `action` with the position of each value that escapes, in order.
template <class Action>
inline void each_escape(const std::uint64_t* bits, unsigned tuple, unsigned n, Action&& action) {
  for (unsigned word = 0; word < 2; ++word) {
    for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
      const unsigned symbol = 64 * word + static_cast<unsigned>(__builtin_ctzll(left));
      for (unsigned i = symbol * tuple; i < symbol * tuple + tuple && i < n; ++i) {
        action(i);
      }
    }
  }
}

#endif

inline void split_indices(const std::int32_t* indices, std::size_t n_values,
                          const GroupCode* groups, DirectSplit& to) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      continue;
    }
    const BinCode code = kBinCodes.of[groups[first / kGroupSize].scale_bin];
    const unsigned n = group_values(n_values - first);
    std::uint8_t*& symbols = to.streams[code.stream];
    const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
    const std::int32_t* const group = indices + first;
#if defined(CFCK_HAS_INDEX_LANES)
    if (code.low_bits <= kMaxLaneShift) {
      if (code.tuple == 1) {
        split_single_lanes(group, code.low_bits, n, symbols, to.raw);
      } else {
        split_tuples_lanes(group, code, symbols);
      }
      std::uint64_t bits[2];
      escape_bits(symbols, n_symbols, bits);
      each_escape(bits, code.tuple, n, [&](unsigned i) { *to.escapes++ = group[i]; });
      symbols += n_symbols;
      continue;
    }
#endif
    const bool escapes = split_group(group, code, n, symbols, to.raw);
    for (unsigned i = 0; escapes && i < n; ++i) {
      if (symbols[i / code.tuple] == 0) {
        *to.escapes++ = group[i];
      }
    }
    symbols += n_symbols;
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
