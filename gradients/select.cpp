// The largest values of a tensor, exactly. A histogram of some of them says where the threshold
// about is; those above it are looked at closely, and the histogram has no part in the result.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/run_guarded.hpp"
#include "gradients/workspace.hpp"

namespace cfck {
namespace gradients {
namespace {

// Exponent and four bits of the mantissa.
constexpr unsigned kBinShift = 19;
constexpr std::size_t kBins = std::size_t{1} << (31 - kBinShift);
// A histogram takes one of so many lines of 16 values, and all values of a small tensor.
constexpr std::size_t kLine = 16;
constexpr std::size_t kSampledLines = 16;
constexpr std::size_t kMinSampled = std::size_t{1} << 16;

std::uint32_t magnitude(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// Returns a magnitude that about `n_wanted` values reach: fewer, if the sample was unlucky.
std::uint32_t guess_threshold(std::span<const float> values, std::size_t n_wanted) {
  std::array<std::uint32_t, kBins> counts{};
  const std::size_t step = values.size() < kMinSampled ? 1 : kSampledLines;
  for (std::size_t line = 0; line < values.size(); line += kLine * step) {
    const std::size_t end = std::min(values.size(), line + kLine);
    for (std::size_t i = line; i < end; ++i) {
      ++counts[magnitude(values[i]) >> kBinShift];
    }
  }
  // A few more than wanted, so that seldom there are fewer.
  const std::size_t enough = n_wanted / step + n_wanted / (8 * step) + 16;
  std::size_t n = 0;
  std::size_t bin = kBins;
  while (bin > 0 && n < enough) {
    n += counts[--bin];
  }
  return static_cast<std::uint32_t>(bin << kBinShift);
}

// Of two values the one with the lower key counts: a larger magnitude, or a lower index.
std::uint64_t key_of(std::uint32_t of_value, std::size_t index) noexcept {
  return std::uint64_t{0x7fffffffU - of_value} << 32 | index;
}

// Replaces `candidates` by the keys of the values that reach a threshold, in ascending order of
// their indices.
void find_candidates(std::span<const float> values, std::uint32_t threshold,
                     std::vector<std::uint64_t>& candidates) {
  candidates.clear();
  const auto look_at = [&](std::size_t i) {
    if (magnitude(values[i]) >= threshold) {
      candidates.push_back(key_of(magnitude(values[i]), i));
    }
  };
  std::size_t i = 0;
  for (; i + kLine <= values.size(); i += kLine) {
    std::uint32_t largest = 0;
    for (std::size_t j = 0; j < kLine; ++j) {
      largest = std::max(largest, magnitude(values[i + j]));
    }
    if (largest >= threshold) {
      for (std::size_t j = i; j < i + kLine; ++j) look_at(j);
    }
  }
  for (; i < values.size(); ++i) look_at(i);
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

// Looks for candidates anew until there are enough.
void select(std::span<const float> values, std::span<std::uint32_t> indices,
            GradientWorkspace::Memory& memory) {
  if (indices.empty()) {
    return;
  }
  std::size_t n_wanted = indices.size();
  while (true) {
    const std::uint32_t threshold =
        n_wanted >= values.size() ? 0 : guess_threshold(values, n_wanted);
    find_candidates(values, threshold, memory.candidates);
    if (memory.candidates.size() >= indices.size()) {
      break;
    }
    n_wanted *= 2;
  }
  keep_lowest(memory.candidates, memory.keys, indices);
}

void accumulate(std::span<const float> gradient, std::span<float> momentum,
                std::span<float> velocity, const MomentumOptions& options) {
  const std::size_t n = gradient.size();
  const float* const g = gradient.data();
  float* const v = velocity.data();
  float* const u = momentum.data();
  const float m = options.factor;
  if (momentum.empty()) {
    for (std::size_t i = 0; i < n; ++i) v[i] += g[i];
  } else if (options.nesterov) {
    for (std::size_t i = 0; i < n; ++i) {
      u[i] = m * (u[i] + g[i]);
      v[i] = v[i] + u[i] + g[i];
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      u[i] = m * u[i] + g[i];
      v[i] += u[i];
    }
  }
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
    gradients::select(values, indices, GradientMemory::of(workspace));
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
    gradients::accumulate(gradient, momentum, velocity, options);
    gradients::select(velocity, indices, GradientMemory::of(workspace));
    return {};
  });
}

}  // namespace cfck
