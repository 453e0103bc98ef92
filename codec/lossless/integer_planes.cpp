#include "codec/lossless/integer_planes.hpp"

#include <cstring>
#include <type_traits>

namespace cfck::codec {
namespace {

// Arithmetic below `unsigned` is promoted to int, hence the casts.
template <class Word>
Word zigzag(Word difference) {
  const Word sign = static_cast<Word>(difference >> (8 * sizeof(Word) - 1));
  return static_cast<Word>(static_cast<Word>(difference << 1) ^ static_cast<Word>(Word{0} - sign));
}

template <class Word>
Word unzigzag(Word coded) {
  return static_cast<Word>((coded >> 1) ^ static_cast<Word>(Word{0} - (coded & 1)));
}

template <class Word>
void split(const std::byte* values, std::size_t n, bool delta, std::byte* planes) {
  Word before = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Word value;
    std::memcpy(&value, values + i * sizeof(Word), sizeof(Word));
    const Word coded = delta ? zigzag(static_cast<Word>(value - before)) : value;
    before = value;
    for (std::size_t p = 0; p < sizeof(Word); ++p) {
      planes[p * n + i] = static_cast<std::byte>(coded >> (8 * p));
    }
  }
}

template <class Word>
void join(const std::byte* planes, std::size_t n, bool delta, std::byte* values) {
  Word before = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Word coded = 0;
    for (std::size_t p = 0; p < sizeof(Word); ++p) {
      coded = static_cast<Word>(coded |
                                static_cast<Word>(static_cast<Word>(planes[p * n + i]) << (8 * p)));
    }
    const Word value = delta ? static_cast<Word>(before + unzigzag(coded)) : coded;
    before = value;
    std::memcpy(values + i * sizeof(Word), &value, sizeof(Word));
  }
}

template <class Action>
void with_word(unsigned value_bytes, Action&& action) {
  switch (value_bytes) {
    case 1:
      return action(std::uint8_t{});
    case 2:
      return action(std::uint16_t{});
    case 4:
      return action(std::uint32_t{});
    default:
      return action(std::uint64_t{});
  }
}

}  // namespace

void split_planes(const std::byte* values, std::size_t n_values, unsigned value_bytes, bool delta,
                  std::byte* planes) {
  with_word(value_bytes,
            [&](auto word) { split<decltype(word)>(values, n_values, delta, planes); });
}

void join_planes(const std::byte* planes, std::size_t n_values, unsigned value_bytes, bool delta,
                 std::byte* values) {
  with_word(value_bytes, [&](auto word) { join<decltype(word)>(planes, n_values, delta, values); });
}

}  // namespace cfck::codec
