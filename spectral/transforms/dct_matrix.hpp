// The matrices of the orthonormal DCT-II, the same bits on every machine.
#pragma once

#include <cstdint>

#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Longest side of a block along one axis.
inline constexpr std::uint32_t kMaxBlockSide = 64;

// The matrix C of one side n: row k is frequency k, column i place i. Both orders hold
// the same numbers, so that either product reads its factors from the start.
template <class T>
struct DctMatrix {
  std::uint32_t side = 0;
  const T* by_frequency = nullptr;  // C[k][i] is by_frequency[k * side + i]
  const T* by_place = nullptr;      // C[k][i] is by_place[i * side + k]
};

// T is float or double; float has the numbers of double, rounded to nearest. Made when
// first asked for, and kept as long as the program runs; any thread may ask.
// Requires: 1 <= side <= kMaxBlockSide.
template <class T>
const DctMatrix<T>& dct_matrix(std::uint32_t side) noexcept;

// The binary64 number nearest to cos(pi * m / (2 * n)). Requires: m <= n,
// 1 <= n <= kMaxBlockSide.
double quarter_cosine(std::uint32_t m, std::uint32_t n) noexcept;

}  // namespace cfck::spectral
