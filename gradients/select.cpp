// The largest values of a tensor, exactly. A histogram of some of them says where the threshold
// about is; those above it are looked at closely, and the histogram has no part in the result.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/run_guarded.hpp"
#include "gradients/workspace.hpp"

namespace cfck {
namespace gradients {
namespace {

// Exponent and four bits of the mantissa.
constexpr unsigned kBinShift = 19;
constexpr std::size_t kBins = std::size_t{1} << (31 - kBinShift);
// So many values are looked at together.
constexpr std::size_t kLine = 16;
// A histogram takes one of up to kMaxStep runs, and about kSample values at least.
constexpr std::size_t kRun = 64;
constexpr std::size_t kMaxStep = 32;
constexpr std::size_t kSample = std::size_t{1} << 15;
// The values of a block stay in the cache between accumulation and the look for candidates.
constexpr std::size_t kBlock = 2048;
// More candidates than twice the number of values that are wanted and so many are not kept.
constexpr std::size_t kMostSpare = std::size_t{1} << 16;

std::uint32_t magnitude(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// Returns a magnitude that about `n_wanted` of n values reach: fewer, if the sample was unlucky.
// value_of(i) is value i.
template <class ValueOf>
std::uint32_t guess_threshold(std::size_t n, std::size_t n_wanted, const ValueOf& value_of) {
  if (n_wanted >= n) {
    return 0;
  }
  std::array<std::uint32_t, kBins> counts{};
  const std::size_t step = std::clamp<std::size_t>(n / kSample, 1, kMaxStep);
  for (std::size_t run = 0; run < n; run += kRun * step) {
    const std::size_t end = std::min(n, run + kRun);
    for (std::size_t i = run; i < end; ++i) {
      ++counts[magnitude(value_of(i)) >> kBinShift];
    }
  }
  // A few more than wanted, so that seldom there are fewer.
  const std::size_t enough = n_wanted / step + n_wanted / (8 * step) + 16;
  std::size_t n_found = 0;
  std::size_t bin = kBins;
  while (bin > 0 && n_found < enough) {
    n_found += counts[--bin];
  }
  return static_cast<std::uint32_t>(bin << kBinShift);
}

// The lower of two keys is that of the value that counts: of the larger magnitude, or lower index.
std::uint64_t key_of(std::uint32_t of_value, std::size_t index) noexcept {
  return std::uint64_t{0x7fffffffU - of_value} << 32 | index;
}

// Keys of values that may be among the largest ones, of which so many are wanted.
struct Candidates {
  std::vector<std::uint64_t>& keys;
  std::size_t n_wanted;
  std::uint32_t threshold;  // that values have to reach
  bool are_in_order = true;

  void add(float value, std::size_t index) {
    if (magnitude(value) >= threshold) {
      keys.push_back(key_of(magnitude(value), index));
    }
  }

  // Where many values are equal, or the threshold is much too low, drops those that do not count:
  // memory is in proportion to what is wanted, and not to the tensor.
  void drop_most() {
    if (n_wanted == 0 || keys.size() < 2 * n_wanted + kMostSpare) {
      return;
    }
    const auto last = keys.begin() + static_cast<std::ptrdiff_t>(n_wanted - 1);
    std::nth_element(keys.begin(), last, keys.end());
    // Values that are looked at later have higher indices, so that equal ones do not count.
    threshold = 0x7fffffffU - static_cast<std::uint32_t>(*last >> 32) + 1;
    keys.resize(n_wanted);
    are_in_order = false;
  }
};

// Adds those of the values [first, end).
void find_candidates(std::span<const float> values, std::size_t first, std::size_t end,
                     Candidates& candidates) {
  const auto look_at = [&](std::size_t i) { candidates.add(values[i], i); };
  const std::uint32_t threshold = candidates.threshold;
  std::size_t i = first;
  for (; i + kLine <= end; i += kLine) {
    std::uint32_t largest = 0;
    for (std::size_t j = 0; j < kLine; ++j) {
      largest = std::max(largest, magnitude(values[i + j]));
    }
    if (largest >= threshold) {
      for (std::size_t j = i; j < i + kLine; ++j) look_at(j);
    }
  }
  for (; i < end; ++i) look_at(i);
  candidates.drop_most();
}

// Puts candidates into the order of their indices.
void finish(const Candidates& candidates) {
  if (!candidates.are_in_order) {
    std::ranges::sort(candidates.keys, {},
                      [](std::uint64_t key) { return static_cast<std::uint32_t>(key); });
  }
}

// Puts the indices of the lowest keys into `indices`. Requires: as many candidates, at least one.
void keep_lowest(const std::vector<std::uint64_t>& candidates, std::vector<std::uint64_t>& keys,
                 std::span<std::uint32_t> indices) {
  keys = candidates;
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(indices.size() - 1);
  std::nth_element(keys.begin(), last, keys.end());
  const std::uint64_t highest = *last;
  auto to = indices.begin();
  for (const std::uint64_t key : candidates) {
    if (key <= highest) *to++ = static_cast<std::uint32_t>(key);
  }
}

// Looks for candidates among all values until there are enough.
void find_enough(std::span<const float> values, std::size_t n_wanted,
                 std::vector<std::uint64_t>& candidates) {
  for (std::size_t n_looked_for = n_wanted; candidates.size() < n_wanted; n_looked_for *= 2) {
    const std::uint32_t threshold =
        guess_threshold(values.size(), n_looked_for, [&](std::size_t i) { return values[i]; });
    candidates.clear();
    Candidates found{candidates, n_wanted, threshold};
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
      find_candidates(values, first, std::min(values.size(), first + kBlock), found);
    }
    finish(found);
  }
}

// Puts the indices of the largest values into `indices`. If the candidates are fewer, others are
// looked for.
void keep_largest(std::span<const float> values, std::span<std::uint32_t> indices,
                  GradientWorkspace::Memory& memory) {
  if (indices.empty()) {
    return;
  }
  find_enough(values, indices.size(), memory.candidates);
  keep_lowest(memory.candidates, memory.keys, indices);
}

// Momentum correction of single values: what v becomes, after u if there is one.
struct WithoutMomentum {
  float value(float g, float /*u*/, float v) const { return v + g; }
};
struct PlainMomentum {
  float m;
  float momentum(float g, float u) const { return m * u + g; }
  float value(float g, float u, float v) const { return v + momentum(g, u); }
};
struct NesterovMomentum {
  float m;
  float momentum(float g, float u) const { return m * (u + g); }
  float value(float g, float u, float v) const { return v + momentum(g, u) + g; }
};

// Values of its own, and no references: the compiler makes vectors of it.
template <class Correction>
void accumulate_block(const float* g, [[maybe_unused]] float* u, float* v, std::size_t n,
                      Correction correction) {
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<Correction, WithoutMomentum>) {
      v[i] = correction.value(g[i], 0.0F, v[i]);
    } else {
      const float before = u[i];
      u[i] = correction.momentum(g[i], before);
      v[i] = correction.value(g[i], before, v[i]);
    }
  }
}

// Accumulates block by block, and looks for candidates while a block is in the cache.
template <class Correction>
void accumulate(std::span<const float> gradient, std::span<float> momentum,
                std::span<float> velocity, const Correction correction, std::size_t n_wanted,
                std::vector<std::uint64_t>& candidates) {
  constexpr bool kHasMomentum = !std::is_same_v<Correction, WithoutMomentum>;
  const float* const g = gradient.data();
  float* const u = momentum.data();
  float* const v = velocity.data();
  Candidates found{candidates, n_wanted,
                   guess_threshold(gradient.size(), n_wanted, [&](std::size_t i) {
                     return correction.value(g[i], kHasMomentum ? u[i] : 0.0F, v[i]);
                   })};
  for (std::size_t first = 0; first < gradient.size(); first += kBlock) {
    const std::size_t end = std::min(gradient.size(), first + kBlock);
    accumulate_block(g + first, kHasMomentum ? u + first : u, v + first, end - first, correction);
    if (n_wanted != 0) {
      find_candidates(velocity, first, end, found);
    }
  }
  finish(found);
}

Result<void> check(std::size_t n_values, std::size_t n_wanted) {
  if (n_values > std::numeric_limits<std::uint32_t>::max()) {
    return limit_exceeded("a tensor of gradients has at most 2^32 - 1 values");
  }
  if (n_wanted > n_values) {
    return invalid_argument(std::to_string(n_wanted) + " values are wanted, and the tensor has " +
                            std::to_string(n_values));
  }
  return {};
}

}  // namespace
}  // namespace gradients

Result<void> select_largest(std::span<const float> values, std::span<std::uint32_t> indices,
                            GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY(gradients::check(values.size(), indices.size()));
    GradientWorkspace::Memory& memory = GradientMemory::of(workspace);
    memory.candidates.clear();
    gradients::keep_largest(values, indices, memory);
    return {};
  });
}

Result<void> accumulate_and_select(std::span<const float> gradient, std::span<float> momentum,
                                   std::span<float> velocity, const MomentumOptions& options,
                                   std::span<std::uint32_t> indices, GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    if (velocity.size() != gradient.size() ||
        (!momentum.empty() && momentum.size() != gradient.size())) {
      return invalid_argument("gradient, momentum and velocity have different lengths");
    }
    CFCK_TRY(gradients::check(gradient.size(), indices.size()));
    GradientWorkspace::Memory& memory = GradientMemory::of(workspace);
    memory.candidates.clear();
    const auto with = [&](const auto& correction) {
      gradients::accumulate(gradient, momentum, velocity, correction, indices.size(),
                            memory.candidates);
    };
    if (momentum.empty()) {
      with(gradients::WithoutMomentum{});
    } else if (options.nesterov) {
      with(gradients::NesterovMomentum{options.factor});
    } else {
      with(gradients::PlainMomentum{options.factor});
    }
    gradients::keep_largest(velocity, indices, memory);
    return {};
  });
}

}  // namespace cfck
