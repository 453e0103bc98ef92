// Length-limited Huffman codes as Zstandard's literals use them
// (codec/entropy/spec.md, sections 3 and 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu/level.hpp"
#include "codec/entropy/zstd/tree_description.hpp"

namespace cfck::codec {

inline constexpr unsigned kMaxCodeLength = 11;

using Histogram = std::array<std::uint32_t, 256>;

// Adds the bytes of `symbols` to `counts`. Requires: at most 2^32 - 1 in all, and
// `level` not above cpu_level(); it changes nothing but the speed.
void count_symbols(std::span<const std::uint8_t> symbols, Histogram& counts,
                   CpuLevel level = cpu_level());

struct HuffmanCode {
  std::array<std::uint8_t, 256> lengths{};  // 0: the symbol does not occur
  unsigned max_symbol = 0;                  // the largest that occurs
  unsigned max_length = 0;
};

// The code of fewest bits among those of at most kMaxCodeLength bits, chosen by
// package-merge. Requires: at least two symbols occur.
HuffmanCode build_huffman_code(const Histogram& counts);

// A lower bound for the bits of any code for these symbols, whatever its code lengths; far quicker
// than building a code. Requires: at least two symbols occur.
std::uint64_t min_coded_bits(const Histogram& counts);

// Bits of all counted symbols together.
std::uint64_t coded_bits(const HuffmanCode& code, const Histogram& counts);

// Returns the tree description; empty if the code has none (more than 128 symbols below the
// largest, and weights that FSE cannot compress).
TreeBytes describe_tree(const HuffmanCode& code);

// Streams of symbols below 64 are counted and coded two at a time where they are
// long enough to pay for a table of all pairs, which has the symbol at the lower
// address in the lower six bits of its index.
inline constexpr unsigned kSmallSymbols = 64;
template <class T>
using PairTable = std::array<T, kSmallSymbols * kSmallSymbols>;

// Code words: the word in the highest bits, its length in the lowest six. Only those of symbols
// that occur are set. Small symbols may have a table of their own, either of pairs or for vectors
// (huffman_vectors.hpp).
struct CodeWords {
  enum class SmallTable { kNone, kPairs, kVectors } small_table = SmallTable::kNone;
  std::array<std::uint64_t, 256> of_symbol;
  PairTable<std::uint64_t> of_pair;
  std::array<std::uint16_t, kSmallSymbols> in_vectors;
};

// Assigns words; `n_symbols` are to be written with them. Requires: `level` is not above
// cpu_level(); it changes nothing but the speed.
void assign_code_words(const HuffmanCode& code, std::size_t n_symbols, CodeWords& words,
                       CpuLevel level = cpu_level());

// The maximum of bytes that a bit stream of n symbols needs while it is written.
constexpr std::size_t max_huffman_stream_bytes(std::size_t n_symbols) {
  return n_symbols * kMaxCodeLength / 8 + 16;
}

// Writes `symbols` as one bit stream, to be read backwards; returns its end.
std::byte* write_huffman_stream(std::span<const std::uint8_t> symbols, const CodeWords& words,
                                std::byte* to);

// Writes two streams, one after the other; returns the end of both. They are written at the same
// time, since each alone waits for its own shifts. Needs space for the maximum of both. Requires:
// `second` is not longer than `first`, by 3 at most.
struct TwoStreamEnds {
  std::byte* first;
  std::byte* second;
};
TwoStreamEnds write_two_huffman_streams(std::span<const std::uint8_t> first,
                                        std::span<const std::uint8_t> second,
                                        const CodeWords& words, std::byte* to);

}  // namespace cfck::codec
