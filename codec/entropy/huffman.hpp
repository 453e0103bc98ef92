// Length-limited Huffman codes as Zstandard's literals use them
// (codec/entropy/spec.md, sections 3 and 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cfck::codec {

inline constexpr unsigned kMaxCodeLength = 11;

using Histogram = std::array<std::uint32_t, 256>;

// Adds the bytes of `symbols` to `counts`. Requires: at most 2^32 - 1 in all.
void count_symbols(std::span<const std::uint8_t> symbols, Histogram& counts);

struct HuffmanCode {
  std::array<std::uint8_t, 256> lengths{};  // 0: the symbol does not occur
  unsigned max_symbol = 0;                  // the largest that occurs
  unsigned max_length = 0;
};

// The code of fewest bits among those of at most kMaxCodeLength bits, chosen by
// package-merge. Requires: at least two symbols occur.
HuffmanCode build_huffman_code(const Histogram& counts);

// Bits of all counted symbols together.
std::uint64_t coded_bits(const HuffmanCode& code, const Histogram& counts);

// The tree description; empty if the code has none (more than 128 symbols below
// the largest, and weights that FSE cannot shrink).
std::vector<std::byte> describe_tree(const HuffmanCode& code);

// Code words by symbol: low 16 bits the word, then the length.
using CodeWords = std::array<std::uint32_t, 256>;
CodeWords assign_code_words(const HuffmanCode& code);

// Writes `symbols` as one bit stream, to be read backwards; returns its end. Needs
// room for 2 * symbols.size() + 16 bytes.
std::byte* write_huffman_stream(std::span<const std::uint8_t> symbols, const CodeWords& words,
                                std::byte* to);

}  // namespace cfck::codec
