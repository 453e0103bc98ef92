#include "codec/direct/plan/index_cost.hpp"

#include <algorithm>
#include <array>

#include "codec/direct/chunk/bin_order.hpp"
#include "codec/direct/kernels/kernels.hpp"

namespace cfck::codec {
namespace {

// Entropy of rounded normal values with the mean magnitude of a bin, from bin 0
// on, in 1/256 bit; each further bin costs another quarter of a bit.
inline constexpr std::array<std::uint16_t, 50> kBinCost = {
    0,    20,   23,   27,   31,   36,   42,   48,   55,   64,   73,   84,   96,
    109,  125,  142,  161,  182,  205,  231,  258,  288,  320,  356,  396,  440,
    489,  542,  597,  655,  715,  776,  837,  900,  962,  1025, 1089, 1152, 1216,
    1280, 1344, 1408, 1472, 1536, 1600, 1664, 1727, 1791, 1855, 1919};
// The cost of a group's bin, and the gain of 128 values by a bin of their own, which others
// lack.
inline constexpr std::uint64_t kGroupCost = 820;

// A count of one, above any sum of the magnitudes of 2^17 indices.
inline constexpr std::uint64_t kOne = std::uint64_t{1} << 46;
inline constexpr std::uint64_t kMaxMagnitude = std::uint64_t{1} << 28;

std::uint64_t cost_of_bin(unsigned scale_bin) {
  const unsigned last = kBinCost.size() - 1;
  return scale_bin <= last ? kBinCost[scale_bin]
                           : kBinCost[last] + 64 * std::uint64_t{scale_bin - last};
}

}  // namespace

std::uint64_t grouped_cost(std::span<const std::int32_t> indices) {
  const std::size_t n_groups = (indices.size() + kGroupSize - 1) / kGroupSize;
  std::vector<GroupCode> groups(n_groups);
  direct_kernels().assign_bins(indices.data(), indices.size(), groups.data());
  std::uint64_t cost = n_groups * kGroupCost;
  for (std::size_t g = 0; g < n_groups; ++g) {
    if (groups[g].kind != GroupKind::kAllZero) {
      cost += group_values(indices.size() - g * kGroupSize) * cost_of_bin(groups[g].scale_bin);
    }
  }
  return cost;
}

std::uint64_t fielded_cost(const DirectGeometry& geometry, const ScaleField& field,
                           std::span<const std::int32_t> indices) {
  std::vector<std::uint8_t> bins(indices.size());
  predict_bins(geometry, field, 0, indices.size(), bins.data());
  // Counts and sums in one number, and four of them, so that equal neighbours do not
  // wait for each other.
  std::array<std::array<std::uint64_t, kMaxDirectBin + 1>, 4> parts{};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t index = indices[i] == kExact ? 0 : indices[i];
    parts[i % 4][bins[i]] +=
        kOne + std::min(static_cast<std::uint64_t>(index < 0 ? -index : index), kMaxMagnitude);
  }
  std::uint64_t cost = 0;
  for (unsigned c = 0; c <= kMaxDirectBin; ++c) {
    std::uint64_t sum = 0;
    std::uint64_t n = 0;
    for (const auto& part : parts) {
      sum += part[c] % kOne;
      n += part[c] / kOne;
    }
    cost += sum == 0 ? 0 : n * cost_of_bin(bin_of_mean(sum, n));
  }
  return cost;
}

}  // namespace cfck::codec
