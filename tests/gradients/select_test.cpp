// The selection is exact, whatever the values.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/cpu/level.hpp"
#include "cfck/gradients.hpp"
#include "gradients/kernels/kernels.hpp"
#include "gradients/workspace.hpp"

namespace cfck::test {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }

std::vector<std::uint32_t> naive(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(values[a]) > magnitude(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<std::uint32_t> select(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> indices(k);
  GradientWorkspace workspace;
  EXPECT_TRUE(select_largest(values, indices, workspace));
  return indices;
}

std::vector<float> at(const std::vector<float>& values, const std::vector<std::uint32_t>& indices) {
  std::vector<float> found;
  for (const std::uint32_t index : indices) found.push_back(values[index]);
  return found;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> found;
  for (const float value : values) found.push_back(std::bit_cast<std::uint32_t>(value));
  return found;
}

std::vector<float> random_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) {
    value = std::exp(3 * normal(random)) * normal(random);
  }
  return values;
}

TEST(SelectLargest, IsExact) {
  for (const std::size_t n : {1, 15, 16, 17, 1000, 65'537, 300'000}) {
    const std::vector<float> values = random_values(n, static_cast<unsigned>(n));
    for (const double ratio : {0.0, 0.001, 0.01, 0.3, 1.0}) {
      const auto k = static_cast<std::size_t>(std::ceil(ratio * double(n)));
      EXPECT_EQ(select(values, k), naive(values, k)) << n << ' ' << ratio;
    }
  }
}

TEST(SelectLargest, TiesGoByIndex) {
  std::vector<float> values(200'000, 0.5F);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -0.5F;
  values[150'000] = 1;
  EXPECT_EQ(select(values, 1000), naive(values, 1000));
  const std::vector<float> zeros(100'000, 0.0F);
  EXPECT_EQ(select(zeros, 10), naive(zeros, 10));
}

// Gradients of zeros, or of few different values, need no memory for each of them.
TEST(SelectLargest, MemoryIsInProportionToWhatIsWanted) {
  constexpr std::size_t kValues = 1 << 19;
  constexpr std::size_t kWanted = 500;
  std::vector<float> zeros(kValues, 0.0F);
  std::vector<float> steps(kValues);
  std::vector<float> rising(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    steps[i] = float(i % 3) - 1;
    rising[i] = 1.0F + 1e-8F * float(i);
  }
  zeros[kValues - 7] = 1;
  for (const std::vector<float>& values : {zeros, steps, rising}) {
    GradientWorkspace workspace;
    std::vector<std::uint32_t> indices(kWanted);
    ASSERT_TRUE(select_largest(values, indices, workspace));
    EXPECT_EQ(indices, naive(values, kWanted));
    std::vector<float> velocity(kValues, 0.0F);
    ASSERT_TRUE(accumulate_and_select(values, {}, velocity, {}, indices, {}, workspace));
    EXPECT_EQ(indices, naive(values, kWanted));
    const GradientWorkspace::Memory& memory = GradientMemory::of(workspace);
    EXPECT_LT(memory.candidates.capacity() + memory.keys.capacity(), kValues);
  }
}

// A sample misleads here: all large values are where it does not look.
TEST(SelectLargest, IsExactWhereTheSampleMisleads) {
  std::vector<float> values = random_values(1 << 18, 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i / 64 % 8 == 0 ? values[i] * 1e6F : values[i] * 1e-6F;
  }
  EXPECT_EQ(select(values, 5000), naive(values, 5000));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i / 64 % 8 == 0 ? 0.0F : 1.0F + float(i % 7);
  }
  EXPECT_EQ(select(values, 5000), naive(values, 5000));
}

TEST(SelectLargest, NanAndInfinityAreTheLargest) {
  std::vector<float> values = random_values(100'000, 4);
  values[70'000] = std::numeric_limits<float>::quiet_NaN();
  values[80'000] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(select(values, 2), (std::vector<std::uint32_t>{70'000, 80'000}));
  EXPECT_EQ(select(values, 500), naive(values, 500));
}

TEST(SelectLargest, RefusesMoreThanThereAre) {
  const std::vector<float> values(10);
  std::vector<std::uint32_t> indices(11);
  GradientWorkspace workspace;
  EXPECT_EQ(select_largest(values, indices, workspace).error().code, ErrorCode::kInvalidArgument);
}

TEST(AccumulateAndSelect, IsMomentumCorrection) {
  constexpr std::size_t kN = 10'001;
  const std::vector<float> g = random_values(kN, 5);
  for (const bool nesterov : {false, true}) {
    for (const bool has_momentum : {false, true}) {
      std::vector<float> u = has_momentum ? random_values(kN, 6) : std::vector<float>();
      std::vector<float> v = random_values(kN, 7);
      std::vector<float> expected_u = u;
      std::vector<float> expected = v;
      for (std::size_t i = 0; i < kN; ++i) {
        if (!has_momentum) {
          expected[i] += g[i];
        } else if (nesterov) {
          expected_u[i] = 0.9F * (u[i] + g[i]);
          expected[i] = expected[i] + expected_u[i] + g[i];
        } else {
          expected_u[i] = 0.9F * u[i] + g[i];
          expected[i] += expected_u[i];
        }
      }
      std::vector<std::uint32_t> indices(100);
      GradientWorkspace workspace;
      std::vector<float> values(100);
      ASSERT_TRUE(accumulate_and_select(g, u, v, {0.9F, nesterov}, indices, values, workspace));
      EXPECT_EQ(u, expected_u);
      EXPECT_EQ(v, expected);
      EXPECT_EQ(indices, naive(v, 100));
      EXPECT_EQ(values, at(v, indices));
    }
  }
}

TEST(AccumulateAndSelect, RefusesOtherLengths) {
  std::vector<float> three(3);
  std::vector<float> two(2);
  GradientWorkspace workspace;
  EXPECT_FALSE(accumulate_and_select(three, {}, two, {}, {}, {}, workspace));
  EXPECT_FALSE(accumulate_and_select(three, two, three, {}, {}, {}, workspace));
  std::vector<std::uint32_t> index(1);
  EXPECT_FALSE(accumulate_and_select(three, {}, three, {}, index, two, workspace));
}

// Values are made of the keys that were compared: no bit of them is another one.
TEST(AccumulateAndSelect, GivesTheBitsOfValues) {
  const std::vector<float> g(64, 0.0F);
  std::vector<float> v(64, -0.0F);
  v[3] = std::bit_cast<float>(0xffc00123U);
  v[5] = std::bit_cast<float>(0x7fffffffU);
  v[8] = -std::numeric_limits<float>::infinity();
  v[9] = -std::numeric_limits<float>::denorm_min();
  std::vector<std::uint32_t> indices(64);
  std::vector<float> values(64);
  GradientWorkspace workspace;
  ASSERT_TRUE(accumulate_and_select(g, {}, v, {}, indices, values, workspace));
  for (std::size_t i = 0; i < v.size(); ++i) {
    EXPECT_EQ(indices[i], i);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(v[i]));
  }
}

// The kernels of each level of the CPU find and add what those of the baseline do.
TEST(GradientKernels, LevelsAgree) {
  using gradients::GradientKernels;
  const GradientKernels& reference = gradients::gradient_kernels_of(CpuLevel::kBaseline);
  for (const std::size_t n : {0, 1, 15, 16, 33, 1000}) {
    std::vector<float> values = random_values(n, 8);
    if (n > 20) values[20] = std::numeric_limits<float>::quiet_NaN();
    if (n > 32) values[32] = -0.0F;
    const std::vector<float> momentum = random_values(n, 9);
    for (int number = 0; number <= static_cast<int>(detail::cpu_level()); ++number) {
      const GradientKernels& kernels = gradients::gradient_kernels_of(CpuLevel(number));
      for (const std::uint32_t threshold : {0U, 1U, magnitude(1.0F), 0x7f800000U, 0x80000000U}) {
        std::vector<std::uint64_t> expected(n);
        std::vector<std::uint64_t> found(n);
        expected.resize(reference.find(values.data(), n, threshold, 0xfffff000U, expected.data()));
        found.resize(kernels.find(values.data(), n, threshold, 0xfffff000U, found.data()));
        EXPECT_EQ(found, expected);
        const auto reaches = [&](float value) { return magnitude(value) >= threshold; };
        EXPECT_EQ(found.size(), std::size_t(std::ranges::count_if(values, reaches)));
      }
      for (const auto add : {&GradientKernels::add_momentum, &GradientKernels::add_nesterov}) {
        std::vector<float> u[2] = {momentum, momentum};
        std::vector<float> v[2] = {values, values};
        (reference.*add)(momentum.data(), u[0].data(), v[0].data(), n, 0.9F);
        (kernels.*add)(momentum.data(), u[1].data(), v[1].data(), n, 0.9F);
        EXPECT_EQ(bits_of(u[0]), bits_of(u[1]));
        EXPECT_EQ(bits_of(v[0]), bits_of(v[1]));
      }
      std::vector<float> v[2] = {values, values};
      reference.add(momentum.data(), v[0].data(), n);
      kernels.add(momentum.data(), v[1].data(), n);
      EXPECT_EQ(bits_of(v[0]), bits_of(v[1]));
    }
  }
}

TEST(KeepUnsent, LeavesWhatWasLost) {
  std::vector<float> velocity{1, 2, 3, 4, 5};
  std::vector<float> momentum{1, 1, 1, 1, 1};
  const std::vector<std::uint32_t> indices{0, 2, 3};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, 3, infinity};
  const std::vector<float> decoded{0.75F, 3.5F, infinity};
  ASSERT_TRUE(keep_unsent(indices, values, decoded, momentum, velocity));
  EXPECT_EQ(velocity, (std::vector<float>{0.25F, 2, -0.5F, 0, 5}));
  EXPECT_EQ(momentum, (std::vector<float>{0, 1, 0, 0, 1}));
  ASSERT_TRUE(keep_unsent(indices, decoded, values, {}, velocity));
  EXPECT_EQ(velocity, (std::vector<float>{-0.25F, 2, 0.5F, 0, 5}));
}

TEST(KeepUnsent, RefusesWhatDoesNotBelongTogether) {
  std::vector<float> velocity{1, 2, 3};
  const std::vector<float> before = velocity;
  const std::vector<std::uint32_t> indices{0, 3};
  const std::vector<float> two(2);
  std::vector<float> one(1);
  const auto error = keep_unsent(indices, two, two, {}, velocity).error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("index 3 is not below the 3 values"), std::string::npos);
  const std::vector<std::uint32_t> first{0, 1};
  EXPECT_FALSE(keep_unsent(first, one, two, {}, velocity));
  EXPECT_FALSE(keep_unsent(first, two, one, {}, velocity));
  EXPECT_FALSE(keep_unsent(first, two, two, one, velocity));
  EXPECT_EQ(velocity, before);
}

}  // namespace
}  // namespace cfck::test
