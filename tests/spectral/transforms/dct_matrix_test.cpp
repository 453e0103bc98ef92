#include "spectral/transforms/dct_matrix.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <thread>
#include <vector>

namespace cfck::spectral {
namespace {

long double cosine_of(std::uint32_t m, std::uint32_t n) {
  return std::cos(std::numbers::pi_v<long double> * m / (2 * n));
}

TEST(QuarterCosine, IsTheNearestNumber) {
  for (std::uint32_t n = 1; n <= kMaxBlockSide; ++n) {
    EXPECT_EQ(quarter_cosine(0, n), 1.0);
    EXPECT_EQ(quarter_cosine(n, n), 0.0);
    EXPECT_FALSE(std::signbit(quarter_cosine(n, n)));
    for (std::uint32_t m = 1; m < n; ++m) {
      const long double expected = cosine_of(m, n);
      const double found = quarter_cosine(m, n);
      // Half of the distance to the next number, and the error of long double itself.
      const double half_step = (std::nextafter(found, 2.0) - found) / 2;
      EXPECT_LE(std::abs(found - expected), half_step * 1.01L) << m << " of " << n;
    }
  }
}

TEST(QuarterCosine, HasTheseBits) {
  EXPECT_EQ(quarter_cosine(2, 3), 0.5);
  EXPECT_EQ(quarter_cosine(40, 60), 0.5);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(quarter_cosine(1, 2)), 0x3fe6a09e667f3bcd);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(quarter_cosine(1, 3)), 0x3febb67ae8584caa);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(quarter_cosine(1, 64)), 0x3feffd886084cd0d);
}

TEST(QuarterCosine, EqualFractionsHaveEqualCosines) {
  for (std::uint32_t n = 1; n <= kMaxBlockSide / 2; ++n) {
    for (std::uint32_t times = 2; times * n <= kMaxBlockSide; ++times) {
      for (std::uint32_t m = 0; m <= n; ++m) {
        EXPECT_EQ(quarter_cosine(m, n), quarter_cosine(times * m, times * n));
      }
    }
  }
}

TEST(DctMatrix, EntriesAreCosines) {
  for (std::uint32_t n = 1; n <= kMaxBlockSide; ++n) {
    const DctMatrix<double>& matrix = dct_matrix<double>(n);
    ASSERT_EQ(matrix.side, n);
    for (std::uint32_t k = 0; k < n; ++k) {
      const long double scale = std::sqrt((k == 0 ? 1.0L : 2.0L) / n);
      for (std::uint32_t i = 0; i < n; ++i) {
        const long double expected = scale * cosine_of((2 * i + 1) * k, n);
        const double found = matrix.by_frequency[k * n + i];
        EXPECT_NEAR(found, static_cast<double>(expected), 3e-16) << n << ' ' << k << ' ' << i;
        EXPECT_EQ(matrix.by_place[i * n + k], found);
        EXPECT_EQ(dct_matrix<float>(n).by_frequency[k * n + i], static_cast<float>(found));
        EXPECT_EQ(dct_matrix<float>(n).by_place[i * n + k], static_cast<float>(found));
      }
    }
  }
}

TEST(DctMatrix, HasTheseBits) {
  const double* three = dct_matrix<double>(3).by_frequency;
  EXPECT_EQ(std::bit_cast<std::uint64_t>(three[0]), 0x3fe279a74590331c);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(three[3]), 0x3fe6a09e667f3bcc);
  EXPECT_EQ(three[4], 0.0);
  EXPECT_EQ(three[5], -three[3]);
  EXPECT_EQ(dct_matrix<double>(1).by_frequency[0], 1.0);
}

TEST(DctMatrix, IsSymmetricToTheBit) {
  for (std::uint32_t n = 1; n <= kMaxBlockSide; ++n) {
    const double* entries = dct_matrix<double>(n).by_frequency;
    for (std::uint32_t k = 0; k < n; ++k) {
      for (std::uint32_t i = 0; i < n; ++i) {
        const double mirrored = entries[k * n + n - 1 - i];
        EXPECT_EQ(entries[k * n + i], k % 2 == 0 ? mirrored : -mirrored);
      }
    }
  }
}

template <class T>
long double row_product(std::uint32_t n, std::uint32_t a, std::uint32_t b) {
  const T* entries = dct_matrix<T>(n).by_frequency;
  long double sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    sum += static_cast<long double>(entries[a * n + i]) * entries[b * n + i];
  }
  return sum;
}

TEST(DctMatrix, IsOrthonormal) {
  for (std::uint32_t n = 1; n <= kMaxBlockSide; ++n) {
    for (std::uint32_t a = 0; a < n; ++a) {
      for (std::uint32_t b = 0; b < n; ++b) {
        const double expected = a == b ? 1 : 0;
        EXPECT_NEAR(static_cast<double>(row_product<double>(n, a, b)), expected, 1e-15);
        EXPECT_NEAR(static_cast<double>(row_product<float>(n, a, b)), expected, 2e-7);
      }
    }
  }
}

// Any thread may ask first, with any rounding: this side is asked for nowhere else in the program
// before this test, if tests run one by one, each in a process of its own.
TEST(DctMatrix, ManyThreadsGetTheSame) {
  std::vector<std::thread> threads;
  std::vector<const double*> found(8);
  std::vector<double> sums(8);
  for (std::size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&, t] {
      std::fesetround(FE_UPWARD);
      found[t] = dct_matrix<double>(61).by_frequency;
      for (std::size_t i = 0; i < 61; ++i) sums[t] += found[t][i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < found.size(); ++t) {
    EXPECT_EQ(found[t], found[0]);
    EXPECT_EQ(sums[t], sums[0]);
  }
  EXPECT_EQ(found[0][0], std::sqrt(1.0 / 61));
  EXPECT_EQ(found[0][61], std::sqrt(2.0 / 61) * quarter_cosine(1, 61));
}

}  // namespace
}  // namespace cfck::spectral
