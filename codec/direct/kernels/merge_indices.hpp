// Turns symbols, low bits and escapes into indices (codec/direct/spec.md, section 6).
#pragma once

#include "codec/direct/kernels/split_indices.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline bool merge_single(const std::uint8_t* symbols, unsigned low_bits, const std::uint32_t* low,
                         std::int32_t* indices) {
  unsigned n_bad = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const std::uint32_t high = static_cast<std::uint32_t>(symbols[i]) - (kReach + 1);
    indices[i] = static_cast<std::int32_t>(high << low_bits | low[i]);
    n_bad += symbols[i] > 2 * kReach + 1 ? 1u : 0u;
  }
  // 63 * 2^25 fits 32 bits; with more low bits an index may not, or be kExact or kMasked.
  for (unsigned i = 0; low_bits > 25 && i < kGroupSize; ++i) {
    const bool fits = indices[i] > kMasked && indices[i] >> low_bits == symbols[i] - (kReach + 1);
    n_bad += symbols[i] != 0 && !fits ? 1u : 0u;
  }
  return n_bad == 0;
}

inline bool merge_tuples(const std::uint8_t* symbols, unsigned n_symbols, const BinCode& code,
                         std::int32_t* indices) {
  const unsigned base = 2u * code.reach + 1;
  bool fits = true;
  for (unsigned s = 0; s < n_symbols; ++s) {
    unsigned symbol = symbols[s] == 0 ? 0u : symbols[s] - 1u;
    for (unsigned j = 0; j < code.tuple; ++j) {
      indices[s * code.tuple + j] =
          static_cast<std::int32_t>(symbol % base) - static_cast<std::int32_t>(code.reach);
      symbol /= base;
    }
    fits = fits && symbol == 0;
  }
  return fits;
}

#if defined(CFCK_HAS_INDEX_LANES)

// The indices of every symbol as signed bytes; those of symbol 0 are zeros.
struct TupleTable {
  std::uint8_t of[256][4] = {};

  constexpr TupleTable(unsigned tuple, unsigned reach) {
    for (unsigned symbol = 1; symbol < 256; ++symbol) {
      unsigned rest = symbol - 1;
      for (unsigned j = 0; j < tuple; ++j) {
        of[symbol][j] = static_cast<std::uint8_t>(rest % (2 * reach + 1) - reach);
        rest /= 2 * reach + 1;
      }
    }
  }
};
inline constexpr TupleTable kFours(4, 1);
inline constexpr TupleTable kThrees(3, 2);
inline constexpr TupleTable kPairs(2, 7);

template <unsigned tuple>
inline void expand_tuples(const std::uint8_t* symbols, unsigned n_symbols, const TupleTable& table,
                          std::uint8_t* bytes) {
  for (unsigned s = 0; s < n_symbols; ++s) {
    __builtin_memcpy(bytes + s * tuple, table.of[symbols[s]], tuple == 3 ? 4 : tuple);
  }
}

// Adds the low bits to the indices, and moves `raw` past them.
inline void add_low_bits(unsigned low_bits, unsigned n, const std::byte*& raw,
                         std::int32_t* indices) {
  raw = read_packed(raw, low_bits, n, [&](unsigned shift, const std::uint8_t* bytes) {
    add_low_bytes(bytes, shift, indices);
  });
}

// `symbols` are kGroupSize bytes, with valid ones after the last that is used.
inline bool merge_group_lanes(const std::uint8_t* symbols, const BinCode& code, unsigned n,
                              const std::byte*& raw, std::int32_t* indices) {
  const unsigned last = code.tuple == 4 ? 81 : code.tuple == 3 ? 125 : code.tuple == 2 ? 225 : 125;
  std::uint8_t bytes[kGroupSize + 4] = {};
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    const ByteLanes lanes = ByteLanes::load(symbols + i);
    if (lanes.any_above(ByteLanes::all(last))) {
      return false;
    }
    if (code.tuple == 1) {
      (lanes + ByteLanes::all(256 - (kReach + 1))).store(bytes + i);
    }
  }
  const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
  if (code.tuple == 2) {
    expand_tuples<2>(symbols, n_symbols, kPairs, bytes);
  } else if (code.tuple == 3) {
    expand_tuples<3>(symbols, n_symbols, kThrees, bytes);
  } else if (code.tuple == 4) {
    expand_tuples<4>(symbols, n_symbols, kFours, bytes);
  }
  indices_of_bytes(bytes, code.low_bits, indices);
  add_low_bits(code.low_bits, n, raw, indices);
  return true;
}

#endif

// Computes the indices of a group except its escapes; false for invalid symbols.
inline bool merge_group(const std::uint8_t* symbols, const BinCode& code, unsigned n,
                        const std::byte*& raw, std::int32_t* indices) {
  if (code.tuple != 1) {
    std::int32_t group[kGroupSize + 4] = {};
    const bool fits =
        merge_tuples(symbols, static_cast<unsigned>(group_symbols(code, n)), code, group);
    __builtin_memcpy(indices, group, kGroupSize * sizeof(std::int32_t));
    return fits;
  }
  std::uint32_t low[kGroupSize];
  raw = read_low_bits(raw, code.low_bits, n, low);
  return merge_single(symbols, code.low_bits, low, indices);
}

inline bool merge_indices(std::int32_t* indices, std::size_t n_values, const GroupCode* groups,
                          DirectMerge& from) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    std::int32_t* const group = indices + first;
    if (groups[first / kGroupSize].kind == GroupKind::kAllZero) {
      __builtin_memset(group, 0, kGroupSize * sizeof(std::int32_t));
      continue;
    }
    const BinCode code = kBinCodes.of[groups[first / kGroupSize].scale_bin];
    const unsigned n = group_values(n_values - first);
    const auto n_symbols = static_cast<unsigned>(group_symbols(code, n));
    const std::uint8_t*& stream = from.streams[code.stream];
    std::uint8_t symbols[kGroupSize];
    __builtin_memset(symbols, kReach + 1, kGroupSize);
    __builtin_memcpy(symbols, stream, n_symbols);
    stream += n_symbols;
    const auto take_escape = [&](unsigned i) {
      if (from.n_escapes == 0) {
        return false;
      }
      group[i] = *from.escapes++;
      --from.n_escapes;
      return true;
    };
    bool fits = true;
#if defined(CFCK_HAS_INDEX_LANES)
    if (code.low_bits <= kMaxLaneShift) {
      if (!merge_group_lanes(symbols, code, n, from.raw, group)) {
        return false;
      }
      std::uint64_t bits[2];
      escape_bits(symbols, n_symbols, bits);
      each_escape(bits, code.tuple, n, [&](unsigned i) { fits = fits && take_escape(i); });
      if (!fits) {
        return false;
      }
      continue;
    }
#endif
    if (!merge_group(symbols, code, n, from.raw, group)) {
      return false;
    }
    const bool escapes = __builtin_memchr(symbols, 0, n_symbols) != nullptr;
    for (unsigned i = 0; escapes && i < n; ++i) {
      fits = fits && (symbols[i / code.tuple] != 0 || take_escape(i));
    }
    if (!fits) {
      return false;
    }
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
