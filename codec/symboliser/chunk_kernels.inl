// The passes over a chunk. Included once for each CPU level, by a source that is
// compiled for it and defines CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include <cstring>

#if defined(__x86_64__)
#include "codec/symboliser/group_analysis_x86.hpp"
#include "codec/symboliser/group_merge_x86.hpp"
#include "codec/symboliser/group_split_x86.hpp"
#endif
#include "codec/entropy/rans/kernels/lanes.hpp"
#if defined(__AVX512VBMI2__)
#include "codec/symboliser/group_merge_v4_vbmi.hpp"
#include "codec/symboliser/group_split_v4_vbmi.hpp"
#endif
#include "codec/entropy/rans/kernels/symbol_order.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/kernel_levels.hpp"
#include "codec/symboliser/raw_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

#if defined(__AVX2__)
// True for the formats that group_split_x86 and group_merge_x86 support.
template <class Format>
constexpr bool has_word_kernels() {
  if constexpr (kHasHighWords<Format>) {
    return HighWords<Format>::kRawBits < 8;
  } else {
    return false;
  }
}
template <class Format>
inline constexpr bool kHasWordKernels = has_word_kernels<Format>();
#endif

// Loads group `index` of a chunk, filled up with zeros; returns its number of values.
template <class Word>
unsigned load_group(const std::byte* values, std::size_t n_values, std::size_t index,
                    Word (&group)[kGroupSize]) {
  const std::size_t left = n_values - index * kGroupSize;
  const std::byte* from = values + index * kGroupSize * sizeof(Word);
  if (left >= kGroupSize) {
    std::memcpy(group, from, sizeof(group));
    return kGroupSize;
  }
  std::memset(group, 0, sizeof(group));
  std::memcpy(group, from, left * sizeof(Word));
  return static_cast<unsigned>(left);
}

// Adds the zeros among the first n values of a group that is filled up with zeros.
template <class Word>
void count_zeros(const Word (&group)[kGroupSize], unsigned n, ZeroCounts& counts) {
  // Counting in words suffices for a group, and keeps the loops in narrow lanes.
  const Word positive = SerialLanes::reduce_sum<Word>(
      [&](unsigned i) { return static_cast<Word>(group[i] == 0 ? 1 : 0); });
  const Word zeros = SerialLanes::reduce_sum<Word>(
      [&](unsigned i) { return static_cast<Word>(static_cast<Word>(group[i] << 1) == 0 ? 1 : 0); });
  counts.positive += positive - (kGroupSize - n);
  counts.negative += zeros - positive;
}

template <class Format>
GroupAnalysis analyse_one(const std::byte* values, std::size_t n_values, std::size_t index,
                          ZeroCounts& zeros) {
  using Word = typename Format::Word;
#if defined(__AVX2__)
  if constexpr (kHasHighWords<Format>) {
    GroupAnalysis found;
#if defined(__AVX512VBMI2__)
    if constexpr (kHasWordKernels<Format>) {
      if (n_values - index * kGroupSize >= kGroupSize &&
          analyse_halves(GroupHalves<Format>(values + index * kGroupSize * sizeof(Word)), found)) {
        return found;
      }
    }
#endif
    if (n_values - index * kGroupSize >= kGroupSize &&
        analyse_group_x86<Format>(values + index * kGroupSize * sizeof(Word), found)) {
      if (found.n_finite != kGroupSize) {
        Word group[kGroupSize];
        count_zeros(group, load_group(values, n_values, index, group), zeros);
      }
      return found;
    }
  }
#endif
  Word group[kGroupSize];
  const unsigned n = load_group(values, n_values, index, group);
  const GroupAnalysis found = analyse_group<Format, SerialLanes>(group);
  if (found.n_finite != kGroupSize) {
    count_zeros(group, n, zeros);
  }
  return found;
}

inline GroupCode code_of(const GroupAnalysis& found) {
  GroupCode code;
  code.scale_bin = static_cast<std::uint16_t>(found.scale_bin);
  code.trailing_zero_bits = static_cast<std::uint8_t>(found.trailing_zero_bits);
  code.kind = found.all_zero  ? GroupKind::kAllZero
              : found.has_bin ? GroupKind::kValues
                              : GroupKind::kNoBin;
  return code;
}

template <class Format>
ChunkAnalysis analyse(const std::byte* values, std::size_t n_values, GroupCode* groups) {
  ChunkAnalysis result;
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    const GroupAnalysis found = analyse_one<Format>(values, n_values, index, result.zeros);
    groups[index] = code_of(found);
    result.has_signs = result.has_signs || found.has_signs;
  }
  return result;
}

// Calls `action(i)` for the symbols from `escape` on, in order, until one returns false.
// There are few of them.
template <class Action>
bool each_escape(const std::uint8_t* symbols, unsigned n, unsigned escape, Action&& action) {
  constexpr std::uint64_t kHighest = 0x8080808080808080;
  const std::uint64_t up_to_highest = (0x80 - escape) * std::uint64_t{0x0101010101010101};
  for (unsigned first = 0; first < n; first += 8) {
    std::uint64_t some;  // symbols have space for whole groups
    std::memcpy(&some, symbols + first, sizeof(some));
    if ((((some & ~kHighest) + up_to_highest) | some) & kHighest) {
      for (unsigned i = first; i < n && i < first + 8; ++i) {
        if (symbols[i] >= escape && !action(i)) {
          return false;
        }
      }
    }
  }
  return true;
}

// Appends the values of a group that have the escape symbol.
template <class Word>
void write_escapes(const std::byte* values, const std::uint8_t* symbols, unsigned n,
                   std::uint8_t escape, std::byte*& to) {
  each_escape(symbols, n, escape, [&](unsigned i) {
    std::memcpy(to, values + i * sizeof(Word), sizeof(Word));
    to += sizeof(Word);
    return true;
  });
}

// True if the symbols of whole groups have an order of their own: where lanes code them.
template <class Format>
inline constexpr bool kHasSymbolOrder = Format::kSymbolMantissaBits == 1;

// Writes the symbols, in the order of the values, and raw bits of a group; returns whether any
// value escapes.
template <class Format>
bool split_one(const std::byte* values, std::size_t n_values, std::size_t index,
               const GroupCode& code, bool has_signs, std::uint8_t* symbols, std::byte*& raw_bits) {
  using Word = typename Format::Word;
#if defined(__AVX2__)
  if constexpr (kHasWordKernels<Format>) {
    if (has_signs && code.trailing_zero_bits == 0 && n_values - index * kGroupSize >= kGroupSize) {
      const bool escapes = split_group_x86<Format>(values + index * kGroupSize * sizeof(Word),
                                                   code.scale_bin, symbols, raw_bits);
      raw_bits += raw_group_bytes<Format>(true, 0, kGroupSize);
      return escapes;
    }
  }
#endif
  Word group[kGroupSize];
  Word raw[kGroupSize];
  const unsigned n = load_group(values, n_values, index, group);
  const bool escapes = split_group<Format, SerialLanes>(group, code.scale_bin, symbols, raw);
  raw_bits = with_group_constants(
      has_signs, code.trailing_zero_bits, n, [&](auto signs, auto trailing_zero_bits, auto count) {
        return write_raw_bits<Format>(raw, signs, trailing_zero_bits, count, raw_bits);
      });
  return escapes;
}

// Splits a group that is not all zero.
template <class Format>
void split_group_of(const std::byte* values, std::size_t n_values, std::size_t index,
                    const GroupCode& code, const SymbolLayout& layout, SplitCursors& to) {
  using Word = typename Format::Word;
  const std::size_t left = n_values - index * kGroupSize;
  const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
  std::uint8_t*& stream = to.streams[layout.n_tables == 1 ? 0 : code.scale_bin % kPhases];
  const std::byte* const group = values + index * kGroupSize * sizeof(Word);
#if defined(__AVX512VBMI2__)
  if constexpr (kHasWordKernels<Format>) {
    if (layout.has_signs && code.trailing_zero_bits == 0 && n == kGroupSize &&
        split_halves(GroupHalves<Format>(group), code.scale_bin, stream, to.raw)) {
      stream += n;
      to.raw += raw_group_bytes<Format>(true, 0, kGroupSize);
      return;
    }
  }
#endif
  const bool is_reordered = kHasSymbolOrder<Format> && n == kGroupSize;
  std::uint8_t ordered[kGroupSize];
  std::uint8_t* const symbols = is_reordered ? ordered : stream;
  if (split_one<Format>(values, n_values, index, code, layout.has_signs, symbols, to.raw)) {
    write_escapes<Word>(group, symbols, n, Format::kSymbolEscape, to.escapes);
  }
  if (is_reordered) {
    to_symbol_order(symbols, stream);
  }
  stream += n;
}

template <class Format>
void split(const std::byte* values, std::size_t n_values, const GroupCode* groups,
           const SymbolLayout& layout, SplitCursors& to) {
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    if (groups[index].kind != GroupKind::kAllZero) {
      split_group_of<Format>(values, n_values, index, groups[index], layout, to);
    }
  }
}

// True if the symbols of a group can be determined as soon as it is analysed. This is not so if it
// takes the bin before it; and with many zeros the chunk is likely to get a mask.
inline bool can_split_at_once(const GroupAnalysis& found, unsigned n) {
  constexpr unsigned kMaxOthers = kGroupSize / 8;
  return found.all_zero || (found.has_bin && found.n_finite + kMaxOthers >= n);
}

// Analyses an ordinary whole group and writes its symbols in one pass over its values. Does nothing
// and returns false for other groups.
template <class Format>
CFCK_INLINE bool analyse_and_split_one([[maybe_unused]] const std::byte* values,
                                       [[maybe_unused]] GroupCode& code,
                                       [[maybe_unused]] ChunkAnalysis& result,
                                       [[maybe_unused]] SplitCursors& to) {
#if defined(__AVX512VBMI2__)
  if constexpr (kHasWordKernels<Format>) {
    const GroupHalves<Format> group(values);
    GroupAnalysis found;
    if (!analyse_halves(group, found)) {
      return false;
    }
    code = code_of(found);
    result.has_signs = result.has_signs || found.has_signs;
    if (!split_halves(group, found.scale_bin, to.streams[0], to.raw)) [[unlikely]] {
      std::uint8_t symbols[kGroupSize];
      split_group_x86<Format>(values, found.scale_bin, symbols, to.raw);
      write_escapes<typename Format::Word>(values, symbols, kGroupSize, Format::kSymbolEscape,
                                           to.escapes);
      to_symbol_order(symbols, to.streams[0]);
    }
    to.streams[0] += kGroupSize;
    to.raw += raw_group_bytes<Format>(true, 0, kGroupSize);
    return true;
  }
#endif
  return false;
}

template <class Format>
ChunkAnalysis analyse_and_split(const std::byte* values, std::size_t n_values, GroupCode* groups,
                                SplitCursors& to) {
  constexpr std::size_t kGroupBytes = kGroupSize * sizeof(typename Format::Word);
  ChunkAnalysis result;
  result.is_split = true;
  SplitCursors next = to;
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    const std::size_t left = n_values - index * kGroupSize;
    const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
    if (result.is_split && n == kGroupSize &&
        analyse_and_split_one<Format>(values + index * kGroupBytes, groups[index], result, next)) {
      continue;
    }
    const GroupAnalysis found = analyse_one<Format>(values, n_values, index, result.zeros);
    groups[index] = code_of(found);
    result.has_signs = result.has_signs || found.has_signs;
    result.is_split = result.is_split && can_split_at_once(found, n);
    if (result.is_split && !found.all_zero) {
      split_group_of<Format>(values, n_values, index, groups[index], SymbolLayout{}, next);
    }
  }
  to = next;
  return result;
}

#include "codec/symboliser/chunk_merge.inl"

template <class Format>
constexpr ChunkKernels<Format> make_chunk_kernels() {
  ChunkKernels<Format> kernels = {&analyse<Format>, nullptr, &split<Format>, &merge<Format>,
                                  nullptr};
  if constexpr (Format::kSymbolMantissaBits == 1) {
    kernels.analyse_and_split = &analyse_and_split<Format>;
    kernels.merge_coded = &merge_coded<Format>;
  }
  return kernels;
}

template <class... Formats>
constexpr KernelSet make_kernels(FormatList<Formats...>) {
  return {make_chunk_kernels<Formats>()...};
}

}  // namespace

const KernelSet& kernel_set() noexcept {
  static constexpr KernelSet kSet = make_kernels(AllFormats{});
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
