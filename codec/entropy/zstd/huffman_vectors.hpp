// Writes streams of symbols below 64 in vector registers of 512 bits: for x86-64-v4 only, with the
// same results as the plain loops of huffman.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cfck::codec {

inline constexpr std::size_t kVectorSymbols = 32;

// A bit stream between two symbols: fewer than eight bits are pending.
struct OpenStream {
  std::byte* to = nullptr;
  std::uint64_t bits = 0;
  std::uint64_t n_bits = 0;
};

// Appends the first n symbols of two streams, last one first. Writes up to eight
// bytes past the end. `words` are those of 64 symbols: the code word, times 16, plus
// its length. Requires: n is a multiple of kVectorSymbols, all symbols are below 64.
void append_vectors(const std::uint8_t* first, const std::uint8_t* second, std::size_t n,
                    const std::uint16_t* words, OpenStream& a, OpenStream& b) noexcept;

// True if this CPU has what count_vectors() needs beyond x86-64-v4.
bool can_count_vectors() noexcept;

// Adds the leading symbols to `counts` of 64 symbols and returns how many there were: all, or as
// many whole blocks as contain only symbols below 64.
std::size_t count_vectors(const std::uint8_t* symbols, std::size_t n,
                          std::uint32_t* counts) noexcept;

}  // namespace cfck::codec
