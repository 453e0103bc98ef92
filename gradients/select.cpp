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
// The values of a block stay in the cache between accumulation and the look for candidates.
constexpr std::size_t kBlock = 4096;

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

// Appends the numbers of values that reach a threshold; `first` is that of values[0].
void find_candidates(std::span<const float> values, std::uint32_t threshold, std::size_t first,
                     std::vector<std::uint32_t>& candidates) {
  std::size_t i = 0;
  for (; i + kLine <= values.size(); i += kLine) {
    unsigned any = 0;
    for (std::size_t j = 0; j < kLine; ++j) {
      any |= magnitude(values[i + j]) >= threshold ? 1U : 0U;
    }
    if (any == 0) {
      continue;
    }
    for (std::size_t j = i; j < i + kLine; ++j) {
      if (magnitude(values[j]) >= threshold) {
        candidates.push_back(static_cast<std::uint32_t>(first + j));
      }
    }
  }
  for (; i < values.size(); ++i) {
    if (magnitude(values[i]) >= threshold) {
      candidates.push_back(static_cast<std::uint32_t>(first + i));
    }
  }
}

// Keeps the largest of the candidates, in ascending order. Requires: as many as are wanted.
void keep_largest(std::span<const float> values, std::vector<std::uint32_t>& candidates,
                  std::span<std::uint32_t> indices) {
  const auto is_before = [&](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t of_a = magnitude(values[a]);
    const std::uint32_t of_b = magnitude(values[b]);
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(indices.size());
  if (end != candidates.end()) {
    std::nth_element(candidates.begin(), end, candidates.end(), is_before);
    std::sort(candidates.begin(), end);
  }
  std::copy(candidates.begin(), end, indices.begin());
}

// Looks for candidates anew until there are enough.
void select(std::span<const float> values, std::span<std::uint32_t> indices,
            std::vector<std::uint32_t>& candidates) {
  if (indices.empty()) {
    return;
  }
  std::size_t n_wanted = indices.size();
  while (true) {
    const std::uint32_t threshold =
        n_wanted >= values.size() ? 0 : guess_threshold(values, n_wanted);
    candidates.clear();
    find_candidates(values, threshold, 0, candidates);
    if (candidates.size() >= indices.size()) {
      break;
    }
    n_wanted *= 2;
  }
  keep_largest(values, candidates, indices);
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
    gradients::select(values, indices, GradientMemory::of(workspace).candidates);
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
    gradients::select(velocity, indices, GradientMemory::of(workspace).candidates);
    return {};
  });
}

}  // namespace cfck
