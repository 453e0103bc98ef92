// The passes that turn symbols and raw bits into values. Included by chunk_kernels.inl alone,
// inside its namespaces.

// Puts the next escapes where the symbols ask for them. False if there are too few, or a symbol is
// above the escape.
template <class Format>
[[gnu::noinline]] bool put_escapes(const std::uint8_t* symbols, unsigned n, MergeCursors& from,
                                   std::byte* values) {
  constexpr std::size_t kBytes = sizeof(typename Format::Word);
  return each_escape(symbols, n, Format::kSymbolEscape, [&](unsigned i) {
    if (symbols[i] > Format::kSymbolEscape || from.n_escapes == 0) {
      return false;
    }
    std::memcpy(values + i * kBytes, from.escapes, kBytes);
    from.escapes += kBytes;
    --from.n_escapes;
    return true;
  });
}

// Restores the values of a group from its symbols, in the order of the values, of which there are
// 128, whatever n is: those after the last value are ignored.
template <class Format>
CFCK_INLINE bool merge_one(const std::uint8_t* symbols, const GroupCode& code, bool has_signs,
                           unsigned n, MergeCursors& from, std::byte* to) {
  using Word = typename Format::Word;
#if defined(__AVX2__)
  if constexpr (kHasWordKernels<Format>) {
    if (has_signs && code.trailing_zero_bits == 0 && n == kGroupSize) {
      const bool escapes =
          merge_group_x86<Format>(ValueOrder{symbols}, code.scale_bin, from.raw, to);
      from.raw += raw_group_bytes<Format>(true, 0, kGroupSize);
      return !escapes || put_escapes<Format>(symbols, n, from, to);
    }
  }
#endif
  Word group[kGroupSize];
  Word raw[kGroupSize];
  from.raw = with_group_constants(
      has_signs, code.trailing_zero_bits, n, [&](auto signs, auto trailing_zero_bits, auto count) {
        return read_raw_bits<Format>(from.raw, signs, trailing_zero_bits, count, raw);
      });
  const bool escapes = merge_group<Format, SerialLanes>(symbols, code.scale_bin, raw, group);
  std::memcpy(to, group, n == kGroupSize ? sizeof(group) : n * sizeof(Word));
  return !escapes || put_escapes<Format>(symbols, n, from, to);
}

#if defined(__AVX512VBMI2__)
// Merges a group that has symbols which are not of its window.
template <class Format>
[[gnu::noinline]] bool merge_escapes(const std::uint8_t* symbols, std::uint32_t scale_bin,
                                     const std::byte* raw, MergeCursors& from, std::byte* to) {
  return !merge_group_x86<Format>(ValueOrder{symbols}, scale_bin, raw, to) ||
         put_escapes<Format>(symbols, kGroupSize, from, to);
}
#endif

// For groups that few chunks have: apart, so that states stay in registers for the others.
template <class Format>
[[gnu::noinline]] bool merge_whole_group(const std::uint8_t* symbols, const GroupCode& code,
                                         bool has_signs, MergeCursors& from, std::byte* to) {
  return merge_one<Format>(symbols, code, has_signs, kGroupSize, from, to);
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
            from.streams[layout.n_tables == 1 ? 0 : code.scale_bin % kPhases];
        const bool is_reordered = kHasSymbolOrder<Format> && n == kGroupSize;
        std::uint8_t ordered[kGroupSize];
        if (is_reordered) {
          to_value_order(stream, ordered);
        }
        const bool fits =
            merge_one<Format>(is_reordered ? ordered : stream, code, layout.has_signs, n, from, to);
        stream += n;
        return fits;
      });
}

#if defined(__AVX2__)

#if defined(__AVX512VBMI2__)
using NextSymbols = OrderedSymbols;
#else
using NextSymbols = SymbolOrder;
#endif

// Decodes the symbols of a whole group; they stay in registers where steps leave them there.
template <unsigned n_sets>
CFCK_INLINE NextSymbols next_symbols(RansRegisters<n_sets>& registers, const RansDecodeTable& table,
                                     [[maybe_unused]] std::uint8_t* workspace) {
#if defined(CFCK_SYMBOL_WORDS)
  return NextSymbols(registers.decode_words(table));
#else
  registers.decode_group(table, workspace);
  return NextSymbols(workspace);
#endif
}

// Merges a whole group with signs and without trailing zero bits. `workspace` is for symbols.
template <class Format>
CFCK_INLINE bool merge_plain_group(const NextSymbols& symbols, std::uint32_t scale_bin,
                                   MergeCursors& from, std::byte* to, std::uint8_t* workspace) {
  const std::byte* const raw = from.raw;
  from.raw += raw_group_bytes<Format>(true, 0, kGroupSize);
#if defined(__AVX512VBMI2__)
  if (merge_window_group<Format>(symbols, scale_bin, raw, to)) [[likely]] {
    return true;
  }
  symbols.store(workspace);
  return merge_escapes<Format>(workspace, scale_bin, raw, from, to);
#else
  if (!merge_group_x86<Format>(symbols, scale_bin, raw, to)) [[likely]] {
    return true;
  }
  symbols.store(workspace);
  return put_escapes<Format>(workspace, kGroupSize, from, to);
#endif
}

#endif

// Merges whole groups as their symbols are decoded, while these are still in registers.
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
      if (groups[g].kind == GroupKind::kAllZero) [[unlikely]] {
        std::memset(to, 0, kGroupBytes);
        continue;
      }
      const RansDecodeTable& table = *tables[groups[g].scale_bin % kPhases];
#if defined(__AVX2__)
      if constexpr (kHasWordKernels<Format>) {
        const NextSymbols next = next_symbols(registers, table, symbols);
        // The hint lets the compiler keep the states in registers on this path.
        if (has_signs && groups[g].trailing_zero_bits == 0) [[likely]] {
          if (!merge_plain_group<Format>(next, groups[g].scale_bin, from, to, symbols))
              [[unlikely]] {
            return false;
          }
          continue;
        }
        next.store(symbols);
      } else
#endif
      {
        registers.decode_values(table, symbols);
      }
      if (!merge_whole_group<Format>(symbols, groups[g], has_signs, from, to)) {
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
        return decode_group(lanes, *tables[code.scale_bin % kPhases], n, symbols) &&
               merge_one<Format>(symbols, code, layout.has_signs, n, from, to);
      });
}
