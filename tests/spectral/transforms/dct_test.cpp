#include "spectral/transforms/dct.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/cpu/level.hpp"
#include "plain_dct.hpp"

namespace cfck::spectral {
namespace {

std::uint64_t product(const Shape& shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t length : shape) n *= length;
  return n;
}

template <class T>
std::vector<T> random_values(std::uint64_t n, std::mt19937_64& random) {
  std::vector<T> values(n);
  // Values have many magnitudes and are exactly representable, so that rounding has work to do.
  for (T& value : values) {
    const auto bits = static_cast<std::int64_t>(random()) >> (64 - 24);
    value =
        static_cast<T>(std::ldexp(static_cast<double>(bits), -24 - static_cast<int>(random() % 8)));
  }
  return values;
}

std::string text_of(const Shape& shape, const Sides& sides) {
  std::string text;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    text += std::to_string(shape[a]) + "/" + std::to_string(sides[a]) + " ";
  }
  return text;
}

std::vector<CpuLevel> levels() {
  std::vector<CpuLevel> found;
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4}) {
    if (level <= cpu_level()) found.push_back(level);
  }
  return found;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void expect_plain_bits(const Shape& shape, const Sides& sides, std::mt19937_64& random) {
  SCOPED_TRACE(text_of(shape, sides));
  const std::vector<T> values = random_values<T>(product(shape), random);
  std::vector<T> forward = values;
  plain_dct(false, forward, shape, sides);
  std::vector<T> inverse = values;
  plain_dct(true, inverse, shape, sides);
  for (const CpuLevel level : levels()) {
    std::vector<T> found = values;
    forward_dct_of<T>(level, found.data(), shape, sides);
    EXPECT_TRUE(same_bits(found, forward)) << "level " << static_cast<int>(level);
    found = values;
    inverse_dct_of<T>(level, found.data(), shape, sides);
    EXPECT_TRUE(same_bits(found, inverse)) << "level " << static_cast<int>(level);
  }
}

template <class T>
class Dct : public testing::Test {
 protected:
  std::mt19937_64 random_{20261121};
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Dct, Types);

TYPED_TEST(Dct, WholeAxesOfEverySide) {
  for (std::uint32_t side = 1; side <= kMaxBlockSide; ++side) {
    expect_plain_bits<TypeParam>({67, side}, {1, side}, this->random_);
    expect_plain_bits<TypeParam>({side, 67}, {side, 1}, this->random_);
  }
}

TYPED_TEST(Dct, EveryRestOfEverySide) {
  for (std::uint32_t side = 2; side <= kMaxBlockSide; ++side) {
    for (std::uint32_t rest = 1; rest < side; rest += side / 7 + 1) {
      expect_plain_bits<TypeParam>({3, side + rest}, {1, side}, this->random_);
      expect_plain_bits<TypeParam>({side + rest, 5}, {side, 1}, this->random_);
    }
  }
}

TYPED_TEST(Dct, ConvolutionKernels) {
  for (const Shape& kernel : {Shape{3, 3}, Shape{5, 5}, Shape{7, 7}, Shape{1, 3}, Shape{3, 1},
                              Shape{3}, Shape{11}, Shape{3, 3, 3}, Shape{11, 11}, Shape{1, 1},
                              Shape{2, 2, 2, 2, 2, 2, 2}, Shape{5, 5, 5}, Shape{4, 4, 8}}) {
    // More and fewer than there are lanes, and whole multiples of them.
    for (const std::uint64_t n_kernels : {1, 31, 32, 64, 65, 200}) {
      Shape shape{n_kernels};
      Sides sides{1};
      for (const std::uint64_t side : kernel) {
        shape.push_back(side);
        sides.push_back(static_cast<std::uint32_t>(side));
      }
      expect_plain_bits<TypeParam>(shape, sides, this->random_);
    }
  }
}

TYPED_TEST(Dct, BlocksOverKernelsAndChannels) {
  expect_plain_bits<TypeParam>({10, 9, 3, 3}, {4, 4, 3, 3}, this->random_);
  expect_plain_bits<TypeParam>({10, 9, 3, 3}, {1, 8, 3, 3}, this->random_);
  expect_plain_bits<TypeParam>({10, 9, 3, 3}, {8, 1, 2, 2}, this->random_);
  expect_plain_bits<TypeParam>({65, 66}, {64, 64}, this->random_);
  expect_plain_bits<TypeParam>({100, 3}, {64, 2}, this->random_);
}

TYPED_TEST(Dct, RandomShapesOfOneToSevenAxes) {
  std::mt19937_64& random = this->random_;
  for (int round = 0; round < 400; ++round) {
    const std::size_t n_axes = 1 + random() % 7;
    Shape shape(n_axes);
    Sides sides(n_axes);
    const std::uint64_t longest = n_axes == 1 ? 400 : n_axes == 2 ? 90 : n_axes == 3 ? 24 : 6;
    for (std::size_t a = 0; a < n_axes; ++a) {
      shape[a] = 1 + random() % longest;
      sides[a] = static_cast<std::uint32_t>(
          1 + random() % std::min<std::uint64_t>(kMaxBlockSide, shape[a] + 2));
    }
    expect_plain_bits<TypeParam>(shape, sides, random);
  }
}

TYPED_TEST(Dct, NothingToDo) {
  expect_plain_bits<TypeParam>({}, {}, this->random_);
  expect_plain_bits<TypeParam>({0}, {3}, this->random_);
  expect_plain_bits<TypeParam>({5, 0, 3}, {2, 4, 3}, this->random_);
  expect_plain_bits<TypeParam>({0, 3, 3}, {1, 3, 3}, this->random_);
  expect_plain_bits<TypeParam>({1, 1, 1}, {3, 3, 3}, this->random_);
  forward_dct<TypeParam>(nullptr, Shape{3, 0}, Sides{2, 2});
  inverse_dct<TypeParam>(nullptr, Shape{3, 0}, Sides{2, 2});
}

TYPED_TEST(Dct, AxesOfSideOneStay) {
  const std::vector<TypeParam> values = random_values<TypeParam>(60, this->random_);
  std::vector<TypeParam> found = values;
  found[7] = -TypeParam{0};
  const std::vector<TypeParam> before = found;
  forward_dct<TypeParam>(found.data(), Shape{3, 4, 5}, Sides{1, 1, 1});
  EXPECT_TRUE(same_bits(found, before));
  inverse_dct<TypeParam>(found.data(), Shape{3, 4, 5}, Sides{1, 1, 1});
  EXPECT_TRUE(same_bits(found, before));
}

// Memory on both sides is checked: nothing before or after the region changes.
TYPED_TEST(Dct, TouchesNothingElse) {
  for (const std::uint64_t n_kernels : {1, 63, 64, 65}) {
    std::vector<TypeParam> values(n_kernels * 9 + 2, TypeParam{1});
    forward_dct<TypeParam>(values.data() + 1, Shape{n_kernels, 3, 3}, Sides{1, 3, 3});
    forward_dct<TypeParam>(values.data() + 1, Shape{n_kernels, 9}, Sides{8, 4});
    EXPECT_EQ(values.front(), TypeParam{1});
    EXPECT_EQ(values.back(), TypeParam{1});
  }
}

TYPED_TEST(Dct, ConstantBlocksHaveOneCoefficient) {
  std::vector<TypeParam> values(18, TypeParam{2});
  forward_dct<TypeParam>(values.data(), Shape{2, 3, 3}, Sides{1, 3, 3});
  const double tolerance = std::is_same_v<TypeParam, float> ? 1e-6 : 1e-15;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], i % 9 == 0 ? 6 : 0, tolerance * 6) << i;
  }
}

template <class T>
double energy(const std::vector<T>& values) {
  long double sum = 0;
  for (const T value : values) sum += static_cast<long double>(value) * value;
  return static_cast<double>(sum);
}

TYPED_TEST(Dct, InverseGivesBackValuesAndEnergyStays) {
  const double epsilon = std::is_same_v<TypeParam, float> ? 0x1p-23 : 0x1p-52;
  for (const auto& [shape, sides] : {std::pair{Shape{40, 30, 3, 3}, Sides{1, 1, 3, 3}},
                                     {{20, 10, 5, 5}, {1, 1, 5, 5}},
                                     {{100, 100}, {8, 8}},
                                     {{130, 70}, {64, 64}},
                                     {{6, 7, 8, 9, 5}, {4, 4, 4, 4, 4}}}) {
    SCOPED_TRACE(text_of(shape, sides));
    const std::vector<TypeParam> values = random_values<TypeParam>(product(shape), this->random_);
    std::vector<TypeParam> found = values;
    forward_dct<TypeParam>(found.data(), shape, sides);
    EXPECT_NEAR(energy(found) / energy(values), 1, 4 * epsilon);
    EXPECT_FALSE(same_bits(found, values));
    inverse_dct<TypeParam>(found.data(), shape, sides);
    double max = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      max = std::max(max, std::abs(static_cast<double>(found[i]) - values[i]));
    }
    EXPECT_LT(max, 8 * epsilon);  // values are below 1/2
  }
}

}  // namespace
}  // namespace cfck::spectral
