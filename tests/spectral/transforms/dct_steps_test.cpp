// The code of the transforms' device kernels, run thread by thread, gives what the CPU's give.
#include "spectral/transforms/dct_steps.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

template <class T>
Factors<T> factors_of(bool is_inverse, std::uint64_t side) {
  const DctMatrix<T>& matrix = dct_matrix<T>(static_cast<std::uint32_t>(side));
  return {is_inverse ? matrix.by_place : matrix.by_frequency, matrix.side};
}

template <class T>
std::vector<T> random_values(std::uint64_t n, std::mt19937& random) {
  std::normal_distribution<T> normal;
  std::vector<T> values(n);
  for (T& value : values) value = normal(random);
  return values;
}

template <class T>
void transform(bool is_inverse, std::vector<T>& values, const std::vector<std::uint64_t>& shape,
               const std::vector<std::uint32_t>& sides) {
  if (is_inverse) {
    inverse_dct(values.data(), shape, sides);
  } else {
    forward_dct(values.data(), shape, sides);
  }
}

template <class T>
bool are_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
class DctSteps : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(DctSteps, Types);

TYPED_TEST(DctSteps, Lines) {
  using T = TypeParam;
  std::mt19937 random(1);
  for (unsigned trial = 0; trial < 200; ++trial) {
    const bool is_inverse = random() % 2 != 0;
    const auto side = static_cast<std::uint32_t>(2 + random() % (kMaxBlockSide - 1));
    AxisPass<T> pass;
    pass.outer = 1 + random() % 5;
    pass.length = side + random() % 150;
    pass.inner = 1 + random() % 5;
    pass.block = factors_of<T>(is_inverse, side);
    if (pass.length % side != 0) pass.last_block = factors_of<T>(is_inverse, pass.length % side);
    std::vector<T> values = random_values<T>(pass.outer * pass.length * pass.inner, random);
    std::vector<T> expected = values;
    transform<T>(is_inverse, expected, {pass.outer, pass.length, pass.inner}, {1, side, 1});
    for (std::uint64_t line = line_count(pass); line-- > 0;) {
      transform_line(values.data(), pass, line);
    }
    EXPECT_TRUE(are_same(values, expected)) << side << " of " << pass.length;
  }
}

TYPED_TEST(DctSteps, SmallBlocks) {
  using T = TypeParam;
  std::mt19937 random(2);
  for (unsigned trial = 0; trial < 200; ++trial) {
    const bool is_inverse = random() % 2 != 0;
    const std::uint32_t sides[3] = {static_cast<std::uint32_t>(2 + random() % 4),
                                    static_cast<std::uint32_t>(2 + random() % 4),
                                    static_cast<std::uint32_t>(2 + random() % 4)};
    KernelPass<T> pass;
    pass.n_kernels = 1 + random() % 50;
    pass.n_values = sides[0] * sides[1] * sides[2];
    pass.n_axes = 3;
    std::uint32_t outer = 1;
    for (unsigned a = 0; a < 3; outer *= sides[a++]) {
      pass.axes[is_inverse ? 2 - a : a] = {outer, pass.n_values / outer / sides[a],
                                           factors_of<T>(is_inverse, sides[a])};
    }
    std::vector<T> values = random_values<T>(pass.n_kernels * pass.n_values, random);
    std::vector<T> expected = values;
    transform<T>(is_inverse, expected, {pass.n_kernels, sides[0], sides[1], sides[2]},
                 {1, sides[0], sides[1], sides[2]});
    for (std::uint64_t kernel = 0; kernel < pass.n_kernels; ++kernel) {
      transform_kernel(values.data(), pass, kernel);
    }
    EXPECT_TRUE(are_same(values, expected)) << trial;
  }
}

}  // namespace
}  // namespace cfck::spectral
