#include "spectral/transforms/dct_matrix.hpp"

#include <cmath>
#include <cstddef>

#include "base/cpu/float_environment.hpp"
#include "base/forks/forks.hpp"

namespace cfck::spectral {
namespace {

constexpr double kCosines[] = {
#include "spectral/transforms/cosine_table.inc"
};
// The table has the sides above half of kMaxBlockSide; others are halves of these.
constexpr std::uint32_t kFirstSide = kMaxBlockSide / 2 + 1;

// Index at which the cosines of a side from kFirstSide on begin.
constexpr std::size_t cosines_before(std::uint32_t side) {
  return std::size_t{side - kFirstSide} * (side + kFirstSide - 3) / 2;
}
static_assert(cosines_before(kMaxBlockSide + 1) == sizeof kCosines / sizeof *kCosines);

// Sum of the squares of the sides below `side`.
constexpr std::size_t numbers_before(std::uint32_t side) {
  return std::size_t{side - 1} * side * (2 * side - 1) / 6;
}

double matrix_cosine(std::uint32_t frequency, std::uint32_t place, std::uint32_t side) noexcept {
  std::uint32_t m = (2 * place + 1) * frequency % (4 * side);
  if (m > 2 * side) m = 4 * side - m;
  return m > side ? -quarter_cosine(2 * side - m, side) : quarter_cosine(m, side);
}

template <class T>
class Matrices {
 public:
  const DctMatrix<T>& of(std::uint32_t side) noexcept {
    made_[side].run([&] { make(side); });
    return matrices_[side];
  }

 private:
  void make(std::uint32_t side) noexcept {
    const DefaultFloatEnvironment environment;
    T* by_frequency = numbers_ + 2 * numbers_before(side);
    T* by_place = by_frequency + std::size_t{side} * side;
    const double constant = std::sqrt(1.0 / side);
    const double others = std::sqrt(2.0 / side);
    for (std::uint32_t k = 0; k < side; ++k) {
      for (std::uint32_t i = 0; i < side; ++i) {
        const double entry = (k == 0 ? constant : others) * matrix_cosine(k, i, side);
        by_frequency[k * side + i] = by_place[i * side + k] = static_cast<T>(entry);
      }
    }
    matrices_[side] = {side, by_frequency, by_place};
  }

  // Static memory: nothing can fail, and no thread can find it destroyed at the end of the
  // program.
  T numbers_[2 * numbers_before(kMaxBlockSide + 1)] = {};
  DctMatrix<T> matrices_[kMaxBlockSide + 1] = {};
  Once made_[kMaxBlockSide + 1] = {};
};

template <class T>
constinit Matrices<T> matrices;

}  // namespace

double quarter_cosine(std::uint32_t m, std::uint32_t n) noexcept {
  while (n < kFirstSide) {
    m *= 2;
    n *= 2;
  }
  if (m == 0) return 1;
  return m == n ? 0 : kCosines[cosines_before(n) + m - 1];
}

template <class T>
const DctMatrix<T>& dct_matrix(std::uint32_t side) noexcept {
  return matrices<T>.of(side);
}

template const DctMatrix<float>& dct_matrix<float>(std::uint32_t side) noexcept;
template const DctMatrix<double>& dct_matrix<double>(std::uint32_t side) noexcept;

}  // namespace cfck::spectral
