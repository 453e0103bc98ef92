// Symbols and low bits into values at once, where the order is that of storage
// (codec/direct/spec.md, sections 4 and 6, with `rans`).
#pragma once

#include "codec/direct/quantise.hpp"
#include "codec/direct/symbol_codes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Values of a group from its codes, blocks after blocks. Escapes take their place.
template <class Value, class Code>
bool values_of_group(const Code* codes, const EscapeBits& escaped, unsigned n, StepWalk& walk,
                     DirectMerge& from, std::byte* values) {
  constexpr unsigned kBytes = sizeof(typename Value::Word);
  for (unsigned first = 0; first < n; first += kBlock) {
    const BlockSteps& steps = walk.next(n - first < kBlock ? n - first : kBlock);
    std::byte* const block = values + first * kBytes;
    dequantise_block<Value>(codes + first, steps, block);
    auto left = static_cast<std::uint32_t>(escaped.words[first / 64] >> (first % 64));
    for (; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(left));
      if (from.n_escapes == 0) {
        return false;
      }
      --from.n_escapes;
      const std::int32_t code = *from.escapes++;
      if (code == kExact) {
        __builtin_memcpy(block + i * kBytes, from.exact, kBytes);
        from.exact += kBytes;
      } else {
        store_word<Value>(Value::from_double(code * steps.step[i]), block + i * kBytes);
      }
    }
  }
  return true;
}

#if defined(CFCK_HAS_CODE_LANES)

// Codes with so many low bits fit bytes, and words of 16 bits.
inline constexpr unsigned kByteLowBits = 3;
inline constexpr unsigned kWordLowBits = kByteLowBits + 8;

// Whole groups. Requires: low bits are at most kWordLowBits.
template <class Value>
bool values_of_narrow_group(unsigned low_bits, StepWalk& walk, DirectMerge& from,
                            std::byte* values) {
  const unsigned n_planes = low_bits < kByteLowBits ? low_bits : kByteLowBits;
  EscapeBits escaped;
  alignas(64) std::int8_t bytes[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
    const ByteLanes symbols = ByteLanes::load(from.streams[0] + i);
    escaped.words[i / 64] |= symbols.equal_bits(ByteLanes::all(kSymbolEscape)) << (i % 64);
    ByteLanes codes = symbols + ByteLanes::all(256 - kSymbolOfZero);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      codes = codes.twice_plus(from.raw + plane * kPlaneBytes + i / 8);
    }
    codes.store(reinterpret_cast<std::uint8_t*>(bytes) + i);
  }
  from.streams[0] += kGroupSize;
  from.raw += n_planes * kPlaneBytes;
  if (low_bits <= kByteLowBits) {
    return values_of_group<Value>(bytes, escaped, kGroupSize, walk, from, values);
  }
  const unsigned n_more = low_bits - kByteLowBits;
  std::uint8_t low[kGroupSize];
  unpack_byte_planes(reinterpret_cast<const std::uint8_t*>(from.raw), n_more, low);
  from.raw += n_more * kPlaneBytes;
  std::int16_t words[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; ++i) {
    words[i] = static_cast<std::int16_t>(static_cast<std::uint16_t>(bytes[i]) << n_more | low[i]);
  }
  return values_of_group<Value>(words, escaped, kGroupSize, walk, from, values);
}

#endif

template <class Value>
bool values_of_symbols(std::size_t n_values, const GroupCode* groups, const ValueSteps& steps,
                       DirectMerge& from, std::byte* values) {
  constexpr unsigned kBytes = sizeof(typename Value::Word);
  StepWalk walk(steps);
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const GroupCode& group = groups[first / kGroupSize];
    const unsigned n = group_values(n_values - first);
    const SymbolCode code = kSymbolCodes.of[group.scale_class];
#if defined(CFCK_HAS_CODE_LANES)
    if (n == kGroupSize && code.low_bits <= kWordLowBits && group.kind != GroupKind::kAllZero) {
      if (!values_of_narrow_group<Value>(code.low_bits, walk, from, values + first * kBytes)) {
        return false;
      }
      continue;
    }
#endif
    std::int32_t codes[kGroupSize] = {};
    EscapeBits escaped;
    if (group.kind != GroupKind::kAllZero) {
      (void)merge_one_group(code, n, from, codes, escaped);
    }
    std::byte room[kGroupSize * kBytes];
    if (!values_of_group<Value>(codes, escaped, n, walk, from, room)) {
      return false;
    }
    __builtin_memcpy(values + first * kBytes, room, n * kBytes);
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
