// Turns symbols and low bits straight into values, where the order is that of storage
// (codec/direct/spec.md, sections 4 and 6, with `rans`).
#pragma once

#include "codec/direct/kernels/float_products.hpp"
#include "codec/direct/kernels/quantise.hpp"
#include "codec/direct/kernels/symbol_codes.hpp"
#include "codec/entropy/rans/kernels/lanes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Puts the next escape at `value`; false if there is none.
template <class Value>
[[gnu::noinline]] bool put_escape(DirectMerge& from, double step, std::byte* value) {
  if (from.n_escapes == 0) {
    return false;
  }
  --from.n_escapes;
  const std::int32_t index = *from.escapes++;
  if (index == kExact) {
    __builtin_memcpy(value, from.exact, sizeof(typename Value::Word));
    from.exact += sizeof(typename Value::Word);
  } else {
    store_word<Value>(Value::from_double(index * step), value);
  }
  return true;
}

// Computes the values of a group from its indices, block after block, and puts in the escapes.
template <class Value, class Code>
[[gnu::noinline]] bool values_of_group(const Code* indices, const EscapeBits& escaped, unsigned n,
                                       StepWalk& walk, DirectMerge& from, std::byte* values) {
  constexpr unsigned kBytes = sizeof(typename Value::Word);
  for (unsigned first = 0; first < n; first += kBlock) {
    const BlockSteps& steps = walk.next(n - first < kBlock ? n - first : kBlock);
    std::byte* const block = values + first * kBytes;
    dequantise_block<Value>(indices + first, steps, block);
    auto left = static_cast<std::uint32_t>(escaped.words[first / 64] >> (first % 64));
    for (; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(left));
      if (!put_escape<Value>(from, steps.step[i], block + i * kBytes)) {
        return false;
      }
    }
  }
  return true;
}

// Merges the groups of one kind of values.
template <class Value>
class ValueMerge {
 public:
  ValueMerge(const ValueSteps& steps, DirectMerge& from)
      : walk_(steps),
        from_(from)
#if defined(CFCK_HAS_FLOAT_PRODUCTS)
        ,
        step_(steps.step),
        float_step_(steps.step),
        has_float_step_(kIsF32 && steps.row_steps == nullptr && steps.has_float_products)
#endif
  {
  }

  // Returns false if there are too few escapes. Symbols are in the order of their values; a group
  // of zeros needs none.
  CFCK_INLINE bool merge(const GroupCode& group, const std::uint8_t* symbols, unsigned n,
                         std::byte* values) {
    const SymbolCode code = kSymbolCodes.of[group.scale_bin];
#if defined(CFCK_HAS_INDEX_LANES)
    if (n == kGroupSize && code.low_bits <= kWordLowBits && group.kind != GroupKind::kAllZero) {
      return merge_narrow(symbols, code.low_bits, values);
    }
#endif
    return merge_wide(group, symbols, code, n, values);
  }

 private:
  static constexpr unsigned kBytes = sizeof(typename Value::Word);

  [[gnu::noinline]] bool merge_wide(const GroupCode& group, const std::uint8_t* symbols,
                                    const SymbolCode& code, unsigned n, std::byte* values) {
    std::int32_t indices[kGroupSize] = {};
    EscapeBits escaped;
    if (group.kind != GroupKind::kAllZero) {
      (void)merge_one_group(symbols, code, n, from_, indices, escaped);
    }
    std::byte workspace[kGroupSize * kBytes];
    if (!values_of_group<Value>(indices, escaped, n, walk_, from_, workspace)) {
      return false;
    }
    __builtin_memcpy(values, workspace, n * kBytes);
    return true;
  }

#if defined(CFCK_HAS_INDEX_LANES)
  // Indices with at most this many low bits fit bytes, and words of 16 bits.
  static constexpr unsigned kByteLowBits = 3;
  static constexpr unsigned kWordLowBits = kByteLowBits + 8;

  // Merges whole groups. Requires: low bits are at most kWordLowBits.
  CFCK_INLINE bool merge_narrow(const std::uint8_t* symbols, unsigned low_bits, std::byte* values) {
    std::uint8_t low[kGroupSize];
    // More than eight bits are stored highest first; the ones above the last eight extend the byte.
    const unsigned in_bytes = low_bits <= kByteLowBits ? low_bits : low_bits > 8 ? low_bits - 8 : 0;
    if (in_bytes != 0) {
      take_low_bits(in_bytes, low);
    }
    EscapeBits escaped;
    alignas(64) std::int8_t bytes[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; i += ByteLanes::kCount) {
      const ByteLanes some = ByteLanes::load(symbols + i);
      escaped.words[i / 64] |= some.equal_bits(ByteLanes::all(kSymbolEscape)) << (i % 64);
      ByteLanes indices = some + ByteLanes::all(256 - kSymbolOfZero);
      if (in_bytes != 0) {
        indices = indices.times_power(in_bytes) + ByteLanes::load(low + i);
      }
      indices.store(reinterpret_cast<std::uint8_t*>(bytes) + i);
    }
    if (low_bits <= kByteLowBits) {
      return values_of_bytes(bytes, escaped, values);
    }
    const unsigned n_more = low_bits - in_bytes;
    take_low_bits(n_more, low);
    std::int16_t words[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; ++i) {
      words[i] = static_cast<std::int16_t>(static_cast<std::uint16_t>(bytes[i]) << n_more | low[i]);
    }
    return values_of_group<Value>(words, escaped, kGroupSize, walk_, from_, values);
  }

  CFCK_INLINE void take_low_bits(unsigned width, std::uint8_t* low) {
    unpack_bits(reinterpret_cast<const std::uint8_t*>(from_.raw), width, low);
    from_.raw += packed_bytes(width, kGroupSize);
  }

  CFCK_INLINE bool values_of_bytes(const std::int8_t* indices, const EscapeBits& escaped,
                                   std::byte* values) {
#if defined(CFCK_HAS_FLOAT_PRODUCTS)
    if (has_float_step_) {
      for (unsigned i = 0; i < kGroupSize; i += WideFloats::kCount) {
        float_step_.times(indices + i).store(values + i * kBytes);
      }
      return escaped.each(
          [&](unsigned i) { return put_escape<Value>(from_, step_, values + i * kBytes); });
    }
#endif
    return values_of_group<Value>(indices, escaped, kGroupSize, walk_, from_, values);
  }
#endif

  StepWalk walk_;
  DirectMerge& from_;
#if defined(CFCK_HAS_FLOAT_PRODUCTS)
  static constexpr bool kIsF32 = sizeof(typename Value::Word) == 4;
  double step_;
  FloatStep float_step_;
  bool has_float_step_;
#endif
};

template <class Value>
bool values_of_symbols(std::size_t n_values, const GroupCode* groups, const ValueSteps& steps,
                       DirectMerge& from, std::byte* values) {
  ValueMerge<Value> merge(steps, from);
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const GroupCode& group = groups[first / kGroupSize];
    const unsigned n = group_values(n_values - first);
    std::uint8_t ordered[kGroupSize];
    const std::uint8_t* const symbols =
        group.kind == GroupKind::kAllZero ? nullptr : take_symbols(n, from, ordered);
    if (!merge.merge(group, symbols, n, values + first * sizeof(typename Value::Word))) {
      return false;
    }
  }
  return true;
}

// Merges whole groups whose symbols the lanes hold. False also if the lanes run out of words.
template <class Value, unsigned n_sets>
bool values_of_lanes(std::size_t n_groups, const GroupCode* groups, const ValueSteps& steps,
                     RansLanes& lanes, const RansDecodeTable* const* tables, DirectMerge& from,
                     std::byte* values) {
  RansWords<n_sets> words(lanes);
  RansRegisters<n_sets> x(lanes, words);
  ValueMerge<Value> merge(steps, from);
  alignas(64) std::uint8_t symbols[kGroupSize];
  for (std::size_t group = 0; group < n_groups;) {
    const std::size_t ready = x.ready_groups();
    const std::size_t end = group + (ready < n_groups - group ? ready : n_groups - group);
    for (; group < end; ++group) {
      if (groups[group].kind != GroupKind::kAllZero) {
        x.decode_values(*tables[kSymbolCodes.of[groups[group].scale_bin].table], symbols);
      }
      if (!merge.merge(groups[group], symbols, kGroupSize,
                       values + group * kGroupSize * sizeof(typename Value::Word))) {
        return false;
      }
    }
    if (!x.in_bounds()) {
      return false;
    }
  }
  x.store(lanes);
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
