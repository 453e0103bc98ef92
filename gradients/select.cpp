// The largest values of a tensor, exactly. A histogram of some of them says where the threshold
// about is; those above it are looked at closely, and the histogram has no part in the result.
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/run_guarded.hpp"
#include "gradients/kernels/corrections.hpp"
#include "gradients/kernels/kernels.hpp"
#include "gradients/kernels/keys.hpp"
#include "gradients/workspace.hpp"

namespace cfck {
namespace gradients {
namespace {

// Exponent and four bits of the mantissa.
constexpr unsigned kBinShift = 19;
constexpr std::size_t kBins = std::size_t{1} << (31 - kBinShift);
using Counts = std::array<std::uint32_t, kBins>;
// A histogram takes one of up to kMaxStep runs, and about kSample values at least.
constexpr std::size_t kRun = 64;
constexpr std::size_t kMaxStep = 128;
constexpr std::size_t kSample = std::size_t{1} << 15;
// The values of a block stay in the cache between accumulation and the look for candidates.
constexpr std::size_t kBlock = 2048;
// More candidates than twice the number of values that are wanted and so many are not kept.
constexpr std::size_t kMostSpare = std::size_t{1} << 16;

// Returns a magnitude that about `n_wanted` of n values reach: fewer, if the sample was unlucky.
// value_of(i) is value i.
template <class ValueOf>
std::uint32_t guess_threshold(std::size_t n, std::size_t n_wanted, const ValueOf& value_of) {
  if (n_wanted >= n) {
    return 0;
  }
  Counts counts{};
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

// Keys of values that may be among the largest ones, of which so many are wanted.
struct Candidates {
  std::vector<std::uint64_t>& keys;
  std::size_t n_wanted;
  std::uint32_t threshold;  // that values have to reach
  const GradientKernels& kernels;
  bool are_in_order = true;

  // Adds those of a block of values, of which the first has this index.
  void add(std::span<const float> block, std::size_t first) {
    std::uint64_t found[kBlock];
    const std::size_t n_found = kernels.find(block.data(), block.size(), threshold,
                                             static_cast<std::uint32_t>(first), found);
    keys.insert(keys.end(), found, found + n_found);
    drop_most();
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
    threshold = magnitude_of(*last) + 1;
    keys.resize(n_wanted);
    are_in_order = false;
  }

  // Puts candidates into the order of their indices.
  void finish() const {
    if (!are_in_order) {
      std::ranges::sort(keys, {}, index_of);
    }
  }
};

// Returns the bin that holds the last of the lowest keys, of which so many are wanted, and leaves
// in `n_wanted` how many of them are in it.
std::uint32_t last_bin(const std::vector<std::uint64_t>& candidates, std::size_t& n_wanted) {
  Counts counts{};
  for (const std::uint64_t key : candidates) {
    ++counts[magnitude_of(key) >> kBinShift];
  }
  std::size_t bin = kBins - 1;
  for (; counts[bin] < n_wanted; --bin) {
    n_wanted -= counts[bin];
  }
  return static_cast<std::uint32_t>(bin);
}

// Returns the highest of the n lowest keys. Requires: as many candidates, at least one.
std::uint64_t highest_of_lowest(const std::vector<std::uint64_t>& candidates, std::size_t n,
                                std::vector<std::uint64_t>& keys) {
  if (candidates.size() == n) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  keys.clear();
  const std::uint32_t bin = last_bin(candidates, n);
  for (const std::uint64_t key : candidates) {
    if (magnitude_of(key) >> kBinShift == bin) keys.push_back(key);
  }
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(n - 1);
  std::nth_element(keys.begin(), last, keys.end());
  return *last;
}

// Looks for candidates among all values until there are enough.
void find_enough(std::span<const float> values, std::size_t n_wanted,
                 std::vector<std::uint64_t>& candidates) {
  for (std::size_t n_looked_for = n_wanted; candidates.size() < n_wanted; n_looked_for *= 2) {
    const std::uint32_t threshold =
        guess_threshold(values.size(), n_looked_for, [&](std::size_t i) { return values[i]; });
    candidates.clear();
    Candidates found{candidates, n_wanted, threshold, gradient_kernels()};
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
      found.add(values.subspan(first, std::min(kBlock, values.size() - first)), first);
    }
    found.finish();
  }
}

// Keeps the largest values, in the order of their indices. If the candidates are fewer, others are
// looked for.
void keep_largest(std::span<const float> of_tensor, std::span<std::uint32_t> indices,
                  std::span<float> values, GradientWorkspace::Memory& memory) {
  if (indices.empty()) {
    return;
  }
  find_enough(of_tensor, indices.size(), memory.candidates);
  const std::uint64_t highest = highest_of_lowest(memory.candidates, indices.size(), memory.keys);
  std::size_t n = 0;
  for (const std::uint64_t key : memory.candidates) {
    if (key <= highest) {
      indices[n] = index_of(key);
      if (!values.empty()) values[n] = value_of(key);
      ++n;
    }
  }
}

// What is accumulated, and how: without momentum, u is empty.
struct Accumulation {
  std::span<const float> g;
  std::span<float> u;
  std::span<float> v;
  MomentumOptions options;

  void add(std::size_t first, std::size_t n, const GradientKernels& kernels) const {
    if (u.empty()) {
      kernels.add(&g[first], &v[first], n);
    } else {
      const auto add_corrected = options.nesterov ? kernels.add_nesterov : kernels.add_momentum;
      add_corrected(&g[first], &u[first], &v[first], n, options.factor);
    }
  }

  std::uint32_t guess(std::size_t n_wanted) const {
    const auto with = [&](const auto& value_of) {
      return guess_threshold(g.size(), n_wanted, value_of);
    };
    if (u.empty()) {
      return with([&](std::size_t i) { return v[i] + g[i]; });
    }
    if (options.nesterov) {
      return with([&, correction = NesterovMomentum{options.factor}](std::size_t i) {
        return correction.value(g[i], u[i], v[i]);
      });
    }
    return with([&, correction = PlainMomentum{options.factor}](std::size_t i) {
      return correction.value(g[i], u[i], v[i]);
    });
  }
};

// Accumulates block by block, and looks for candidates while a block is in the cache.
void accumulate(const Accumulation& how, std::size_t n_wanted,
                std::vector<std::uint64_t>& candidates) {
  const GradientKernels& kernels = gradient_kernels();
  Candidates found{candidates, n_wanted, how.guess(n_wanted), kernels};
  for (std::size_t first = 0; first < how.g.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, how.g.size() - first);
    how.add(first, n, kernels);
    if (n_wanted != 0) {
      found.add(how.v.subspan(first, n), first);
    }
  }
  found.finish();
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
    gradients::keep_largest(values, indices, {}, memory);
    return {};
  });
}

Result<void> accumulate_and_select(std::span<const float> gradient, std::span<float> momentum,
                                   std::span<float> velocity, const MomentumOptions& options,
                                   std::span<std::uint32_t> indices, std::span<float> values,
                                   GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    if (velocity.size() != gradient.size() ||
        (!momentum.empty() && momentum.size() != gradient.size())) {
      return invalid_argument("gradient, momentum and velocity have different lengths");
    }
    if (!values.empty() && values.size() != indices.size()) {
      return invalid_argument("there is space for " + std::to_string(indices.size()) +
                              " indices and " + std::to_string(values.size()) + " values");
    }
    CFCK_TRY(gradients::check(gradient.size(), indices.size()));
    GradientWorkspace::Memory& memory = GradientMemory::of(workspace);
    memory.candidates.clear();
    gradients::accumulate({gradient, momentum, velocity, options}, indices.size(),
                          memory.candidates);
    gradients::keep_largest(velocity, indices, values, memory);
    return {};
  });
}

}  // namespace cfck
