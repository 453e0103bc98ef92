// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "codec/delta/kernels/dense_codes_v4.hpp"
//

#include <bit>
#include <cstring>

#include "codec/delta/kernels/dense_units.hpp"
#include "codec/delta/kernels/places.hpp"
#include "codec/delta/kernels/sparse_walks.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

std::uint64_t low_bits(std::size_t n) {
  return n >= kDeltaBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

// Calls `action` with the place of each block, its number, and a bit for each of its units. The
// last block, if it is shorter, is a copy.
template <class Word, class Action>
void each_block(const std::byte* units, std::size_t n_units, Action&& action) {
  constexpr std::size_t kBytes = kDeltaBlock * sizeof(Word);
  const std::size_t n_whole = n_units / kDeltaBlock;
  for (std::size_t b = 0; b < n_whole; ++b) {
    action(units + b * kBytes, b, ~std::uint64_t{0});
  }
  const std::size_t n_left = n_units % kDeltaBlock;
  if (n_left != 0) {
    std::byte last[kBytes] = {};
    std::memcpy(last, units + n_whole * kBytes, n_left * sizeof(Word));
    action(static_cast<const std::byte*>(last), n_whole, low_bits(n_left));
  }
}

template <class Word>
std::size_t changed(const std::byte* base, const std::byte* values, std::size_t n_units,
                    std::uint64_t* masks) {
  constexpr std::size_t kBytes = kDeltaBlock * sizeof(Word);
  const std::size_t n_whole = n_units / kDeltaBlock;
  std::size_t n_changed = 0;
  for (std::size_t b = 0; b < n_whole; ++b) {
    masks[b] = Blocks<Word>::differing(base + b * kBytes, values + b * kBytes);
    n_changed += static_cast<std::size_t>(std::popcount(masks[b]));
  }
  const std::size_t n_left = n_units % kDeltaBlock;
  if (n_left != 0) {
    std::byte last[2][kBytes] = {};
    std::memcpy(last[0], base + n_whole * kBytes, n_left * sizeof(Word));
    std::memcpy(last[1], values + n_whole * kBytes, n_left * sizeof(Word));
    masks[n_whole] = Blocks<Word>::differing(last[0], last[1]);
    n_changed += static_cast<std::size_t>(std::popcount(masks[n_whole]));
  }
  return n_changed;
}

template <class Word>
void list_changed(const std::byte* base, const std::byte* values, std::size_t n_units,
                  ChangedUnits& changed) {
  constexpr std::size_t kBytes = kDeltaBlock * sizeof(Word);
  std::uint16_t* next = changed.places;
  std::size_t done = 0;
  for (; done + kDeltaBlock <= n_units; done += kDeltaBlock) {
    const std::size_t at = done * sizeof(Word);
    next = append_places(Blocks<Word>::differing(base + at, values + at), done, next);
  }
  if (done < n_units) {
    std::byte last[2][kBytes] = {};
    std::memcpy(last[0], base + done * sizeof(Word), (n_units - done) * sizeof(Word));
    std::memcpy(last[1], values + done * sizeof(Word), (n_units - done) * sizeof(Word));
    next = append_places(Blocks<Word>::differing(last[0], last[1]), done, next);
  }
  changed.n = static_cast<std::size_t>(next - changed.places);
  for (std::size_t i = 0; i < changed.n; ++i) {
    const std::size_t at = changed.places[i] * sizeof(Word);
    const auto bits = static_cast<Word>(load_word<Word>(base + at) ^ load_word<Word>(values + at));
    std::memcpy(changed.bits + i * sizeof(Word), &bits, sizeof(bits));
  }
}

template <class Word>
void classes(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
             ClassMasks* masks) {
  each_block<Word>(base, n_units, [&](const std::byte* block, std::size_t b, std::uint64_t units) {
    std::uint64_t reached[kMaxDeltaClasses];
    Blocks<Word>::reached(block, ranges, reached);
    std::uint64_t rest = units;
    for (unsigned c = 1; c < ranges.n_classes; ++c) {
      masks[b][c - 1] = rest & ~reached[c];
      rest &= reached[c];
    }
    masks[b][ranges.n_classes - 1] = rest;
  });
}

template <class Word>
void count(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
           std::uint64_t* counts) {
  std::uint64_t n_reached[kMaxDeltaClasses + 1] = {n_units};
  each_block<Word>(base, n_units, [&](const std::byte* block, std::size_t, std::uint64_t units) {
    std::uint64_t reached[kMaxDeltaClasses];
    Blocks<Word>::reached(block, ranges, reached);
    for (unsigned c = 1; c < ranges.n_classes; ++c) {
      n_reached[c] += static_cast<std::uint64_t>(std::popcount(reached[c] & units));
    }
  });
  for (unsigned c = 0; c < ranges.n_classes; ++c) {
    counts[c] += n_reached[c] - n_reached[c + 1];
  }
}

// |d| - 1, or 0.
template <class Word>
Word less_of(const std::byte* differences, std::size_t i, const UnitWords<Word>& words) {
  const Word magnitude = words.magnitude(load_word<Word>(differences + i * sizeof(Word)));
  return static_cast<Word>(magnitude - (magnitude != 0 ? 1 : 0));
}

template <class Word>
unsigned longest(const std::byte* differences, std::size_t n, const UnitFormat& format) {
  const UnitWords<Word> words(format);
  Word all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    all = static_cast<Word>(all | less_of(differences, i, words));
  }
  return static_cast<unsigned>(std::bit_width(all));
}

template <class Word>
void count_long(const std::byte* differences, std::size_t n, const UnitFormat& format,
                unsigned length, std::uint32_t (&counts)[kCountedLengths]) {
  const UnitWords<Word> words(format);
  const auto least = [&](unsigned i) {
    return static_cast<Word>(std::uint64_t{1} << (length - 1 - i));
  };
  const Word leasts[kCountedLengths] = {least(0), least(1), least(2), least(3)};
  Word found[kCountedLengths] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const Word less = less_of(differences, i, words);
    for (unsigned j = 0; j < kCountedLengths; ++j) {
      found[j] = static_cast<Word>(found[j] + (less >= leasts[j] ? 1 : 0));
    }
  }
  for (unsigned j = 0; j < kCountedLengths; ++j) {
    counts[j] = static_cast<std::uint32_t>(found[j]);
  }
}

template <class Word>
void code_differences(const std::byte* differences, std::size_t n, const UnitFormat& format,
                      unsigned low_width, DenseOutput& out) {
  std::size_t n_done = 0;
#if defined(__AVX512BW__)
  if constexpr (sizeof(Word) <= 4) {
    n_done = code_sixteens<Word>(differences, n, format, low_width, out);
  }
#endif
  code_serially<Word>(differences + n_done * sizeof(Word), n - n_done, UnitWords<Word>(format),
                      low_width, out);
}

void count_raw(const std::uint8_t* symbols, std::size_t n, unsigned low_width,
               std::uint64_t& n_bits, std::uint64_t& n_escapes) {
  const DenseSymbols table(low_width);
  std::size_t i = 0;
#if defined(__AVX512BW__)
  i = count_raw_of_sixty_fours(symbols, n, table, n_bits, n_escapes);
#endif
  for (; i < n; ++i) {
    n_bits += table.n_raw[symbols[i]];
    n_escapes += symbols[i] == kDenseEscape;
  }
}

template <class Word>
bool decode_differences(const std::uint8_t* symbols, std::size_t n, const UnitFormat& format,
                        unsigned low_width, DenseInput& in, std::byte* differences) {
  const DenseSymbols table(low_width);
  bool fits = true;
  std::size_t n_done = 0;
#if defined(__AVX512BW__)
  if constexpr (sizeof(Word) <= 4) {
    n_done = decode_sixteens<Word>(symbols, n, format, low_width, table, in, differences, fits);
  }
#endif
  return decode_serially<Word>(symbols + n_done, n - n_done, UnitWords<Word>(format), table, in,
                               differences + n_done * sizeof(Word)) &&
         fits;
}

template <class Word>
constexpr DeltaKernels kernels_for() {
  return {&changed<Word>,      &list_changed<Word>,      &list_places,      &classes<Word>,
          &apply_sparse<Word>, &apply_dense<Word>,       &list_changes,     &list_differences<Word>,
          &count<Word>,        &longest<Word>,           &count_long<Word>, &code_differences<Word>,
          &count_raw,          &decode_differences<Word>};
}

}  // namespace

const DeltaKernelSet& delta_kernel_set() noexcept {
  static constexpr DeltaKernelSet kSet{{kernels_for<std::uint8_t>(), kernels_for<std::uint16_t>(),
                                        kernels_for<std::uint32_t>(),
                                        kernels_for<std::uint64_t>()}};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
