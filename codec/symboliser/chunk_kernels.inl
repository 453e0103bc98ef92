// The passes over a chunk. Included once for each CPU level, by a source that is
// compiled for it and defines CFCK_CPU_NAMESPACE.
#include <cstring>

#if defined(__x86_64__)
#include "codec/symboliser/group_analysis_x86.hpp"
#include "codec/symboliser/group_merge_x86.hpp"
#include "codec/symboliser/group_split_x86.hpp"
#endif
#include "codec/entropy/rans_lanes.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/kernel_levels.hpp"
#include "codec/symboliser/raw_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

#if defined(__AVX2__)
// Formats that group_split_x86 and group_merge_x86 are for.
template <class Format>
constexpr bool has_word_kernels() {
  if constexpr (kHasHighWords<Format>) {
    return HighWords<Format>::kRawBits <= 8;
  } else {
    return false;
  }
}
template <class Format>
inline constexpr bool kHasWordKernels = has_word_kernels<Format>();
#endif

// Group `index` of a chunk, filled up with zeros; returns its number of values.
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
  // Words count as far as a group goes, and keep the loops in narrow lanes.
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

template <class Format>
ChunkAnalysis analyse(const std::byte* values, std::size_t n_values, GroupCode* groups) {
  ChunkAnalysis result;
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    const GroupAnalysis found = analyse_one<Format>(values, n_values, index, result.zeros);
    GroupCode& code = groups[index];
    code.scale_class = static_cast<std::uint16_t>(found.scale_class);
    code.clean_bits = static_cast<std::uint8_t>(found.clean_bits);
    result.has_signs = result.has_signs || found.has_signs;
    code.kind = found.all_zero    ? GroupKind::kAllZero
                : found.has_class ? GroupKind::kValues
                                  : GroupKind::kNoClass;
  }
  return result;
}

// Appends the values of a group that have the escape symbol.
template <class Word>
void write_escapes(const std::byte* values, const std::uint8_t* symbols, unsigned n,
                   std::uint8_t escape, std::byte*& to) {
  for (unsigned i = 0; i < n; ++i) {
    if (symbols[i] == escape) {
      std::memcpy(to, values + i * sizeof(Word), sizeof(Word));
      to += sizeof(Word);
    }
  }
}

// The symbols and raw bits of a group; returns whether any value escapes.
template <class Format>
bool split_one(const std::byte* values, std::size_t n_values, std::size_t index,
               const GroupCode& code, bool has_signs, std::uint8_t* symbols, std::byte*& raw_bits) {
  using Word = typename Format::Word;
#if defined(__AVX2__)
  if constexpr (kHasWordKernels<Format>) {
    if (has_signs && code.clean_bits == 0 && n_values - index * kGroupSize >= kGroupSize) {
      const bool escapes = split_group_x86<Format>(values + index * kGroupSize * sizeof(Word),
                                                   code.scale_class, symbols, raw_bits);
      raw_bits += raw_group_bytes<Format>(true, 0, kGroupSize);
      return escapes;
    }
  }
#endif
  Word group[kGroupSize];
  Word raw[kGroupSize];
  const unsigned n = load_group(values, n_values, index, group);
  const bool escapes = split_group<Format, SerialLanes>(group, code.scale_class, symbols, raw);
  raw_bits = with_group_constants(
      has_signs, code.clean_bits, n, [&](auto signs, auto clean_bits, auto count) {
        return write_raw_bits<Format>(raw, signs, clean_bits, count, raw_bits);
      });
  return escapes;
}

template <class Format>
void split(const std::byte* values, std::size_t n_values, const GroupCode* groups,
           const SymbolLayout& layout, SplitCursors& to) {
  using Word = typename Format::Word;
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    const GroupCode& code = groups[index];
    if (code.kind == GroupKind::kAllZero) {
      continue;
    }
    const std::size_t left = n_values - index * kGroupSize;
    const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
    std::uint8_t*& stream = to.streams[layout.n_tables == 1 ? 0 : code.scale_class % kPhases];
    if (split_one<Format>(values, n_values, index, code, layout.has_signs, stream, to.raw)) {
      write_escapes<Word>(values + index * kGroupSize * sizeof(Word), stream, n,
                          Format::kSymbolEscape, to.escapes);
    }
    stream += n;
  }
}

// Puts the next escapes where the symbols want them. False if there are too few, or a
// symbol is above the escape.
template <class Format>
bool put_escapes(const std::uint8_t* symbols, unsigned n, MergeCursors& from, std::byte* values) {
  constexpr std::size_t kBytes = sizeof(typename Format::Word);
  for (unsigned i = 0; i < n; ++i) {
    if (symbols[i] >= Format::kSymbolEscape) {
      if (symbols[i] > Format::kSymbolEscape || from.n_escapes == 0) {
        return false;
      }
      std::memcpy(values + i * kBytes, from.escapes, kBytes);
      from.escapes += kBytes;
      --from.n_escapes;
    }
  }
  return true;
}

// Values of a group from its symbols, of which there are 128, whatever n is: those
// after the last belong to nobody.
template <class Format>
CFCK_INLINE bool merge_one(const std::uint8_t* symbols, const GroupCode& code, bool has_signs,
                           unsigned n, MergeCursors& from, std::byte* to) {
  using Word = typename Format::Word;
#if defined(__AVX2__)
  if constexpr (kHasWordKernels<Format>) {
    if (has_signs && code.clean_bits == 0 && n == kGroupSize) {
      const bool escapes = merge_group_x86<Format>(symbols, code.scale_class, from.raw, to);
      from.raw += raw_group_bytes<Format>(true, 0, kGroupSize);
      return !escapes || put_escapes<Format>(symbols, n, from, to);
    }
  }
#endif
  Word group[kGroupSize];
  Word raw[kGroupSize];
  from.raw = with_group_constants(
      has_signs, code.clean_bits, n, [&](auto signs, auto clean_bits, auto count) {
        return read_raw_bits<Format>(from.raw, signs, clean_bits, count, raw);
      });
  const bool escapes = merge_group<Format, SerialLanes>(symbols, code.scale_class, raw, group);
  std::memcpy(to, group, n == kGroupSize ? sizeof(group) : n * sizeof(Word));
  return !escapes || put_escapes<Format>(symbols, n, from, to);
}

// Calls `merge(index, n, values of the group)` for each group that has symbols, until
// one returns false; the others become zeros.
template <class Word, class Merge>
bool each_group(std::byte* values, std::size_t n_values, const GroupCode* groups, Merge&& merge) {
  for (std::size_t index = 0; index * kGroupSize < n_values; ++index) {
    const std::size_t left = n_values - index * kGroupSize;
    const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
    std::byte* const to = values + index * kGroupSize * sizeof(Word);
    if (groups[index].kind == GroupKind::kAllZero) {
      std::memset(to, 0, n * sizeof(Word));
    } else if (!merge(index, n, to)) {
      return false;
    }
  }
  return true;
}

template <class Format>
bool merge(std::byte* values, std::size_t n_values, const GroupCode* groups,
           const SymbolLayout& layout, MergeCursors& from) {
  return each_group<typename Format::Word>(
      values, n_values, groups, [&](std::size_t index, unsigned n, std::byte* to) {
        const GroupCode& code = groups[index];
        const std::uint8_t*& stream =
            from.streams[layout.n_tables == 1 ? 0 : code.scale_class % kPhases];
        const bool fits = merge_one<Format>(stream, code, layout.has_signs, n, from, to);
        stream += n;
        return fits;
      });
}

// Whole groups as their symbols are decoded, while these are at hand.
template <class Format, unsigned n_sets>
bool merge_whole_groups(std::byte* values, std::size_t n_groups, const GroupCode* groups,
                        bool has_signs, RansLanes& lanes, const RansDecodeTable* const* tables,
                        MergeCursors& from) {
  constexpr std::size_t kGroupBytes = kGroupSize * sizeof(typename Format::Word);
  RansWords<n_sets> words(lanes);
  RansRegisters<n_sets> registers(lanes, words);
  alignas(64) std::uint8_t symbols[kGroupSize];
  for (std::size_t g = 0; g < n_groups;) {
    const std::size_t ready = registers.ready_groups();
    for (const std::size_t end = g + (ready < n_groups - g ? ready : n_groups - g); g < end; ++g) {
      std::byte* const to = values + g * kGroupBytes;
      if (groups[g].kind == GroupKind::kAllZero) {
        std::memset(to, 0, kGroupBytes);
        continue;
      }
      registers.decode_group(*tables[groups[g].scale_class % kPhases], symbols);
      if (!merge_one<Format>(symbols, groups[g], has_signs, kGroupSize, from, to)) {
        return false;
      }
    }
    if (!registers.in_bounds()) {
      return false;
    }
  }
  registers.store(lanes);
  return true;
}

template <class Format>
bool merge_coded(std::byte* values, std::size_t n_values, const GroupCode* groups,
                 const SymbolLayout& layout, RansLanes& lanes, const RansDecodeTable* const* tables,
                 MergeCursors& from) {
  const std::size_t n_whole = n_values / kGroupSize;
  const auto merge_groups = lanes.n_sets == 4   ? merge_whole_groups<Format, 4>
                            : lanes.n_sets == 2 ? merge_whole_groups<Format, 2>
                                                : merge_whole_groups<Format, 1>;
  if (!merge_groups(values, n_whole, groups, layout.has_signs, lanes, tables, from)) {
    return false;
  }
  return each_group<typename Format::Word>(
      values + n_whole * kGroupSize * sizeof(typename Format::Word), n_values % kGroupSize,
      groups + n_whole, [&](std::size_t, unsigned n, std::byte* to) {
        const GroupCode& code = groups[n_whole];
        std::uint8_t symbols[kGroupSize] = {};
        return decode_group(lanes, *tables[code.scale_class % kPhases], n, symbols) &&
               merge_one<Format>(symbols, code, layout.has_signs, n, from, to);
      });
}

template <class Format>
constexpr ChunkKernels<Format> make_chunk_kernels() {
  ChunkKernels<Format> kernels = {&analyse<Format>, &split<Format>, &merge<Format>, nullptr};
  if constexpr (Format::kSymbolMantissaBits == 1) {
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
