#include "codec/direct/chunk/even_bins.hpp"

#include <algorithm>

#include "codec/common/bin_codes.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {
namespace {

// Fewer groups could save too little.
inline constexpr std::size_t kMinEvenGroups = 256;
// Above this bin, sums might not fit.
inline constexpr unsigned kMaxEvenBin = 100;
// The saving of 128 values by a bin of their own, in bits times 2^16, for each squared
// quarter-log2 step that bins vary by: 128 * ln(2) / 2 / 16 if they are normal, and half as much
// again, since weights are not quite normal.
inline constexpr std::uint64_t kGroupSaving = 272556;

std::uint64_t cost_of_bins(const SymbolCounts& counts) {
  std::uint64_t min = ~std::uint64_t{0};
  for (unsigned i = 0; i < kRansBinTables; ++i) {
    min = std::min(min, coded_cost(counts, static_frequencies(bin_table(i))));
  }
  return min;
}

}  // namespace

bool bins_are_even(const GroupCode* groups, std::size_t n_groups) {
  if (n_groups < kMinEvenGroups) {
    return false;
  }
  SymbolCounts counts{};
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  unsigned before = groups[0].scale_bin;
  for (std::size_t g = 0; g < n_groups; ++g) {
    const unsigned scale_bin = groups[g].scale_bin;
    if (groups[g].kind != GroupKind::kValues || scale_bin > kMaxEvenBin) {
      return false;
    }
    const std::uint32_t symbol =
        zigzag(static_cast<std::int32_t>(scale_bin) - static_cast<std::int32_t>(before));
    if (symbol >= 30) {
      return false;
    }
    ++counts[symbol];
    sum += scale_bin;
    squares += std::uint64_t{scale_bin} * scale_bin;
    before = scale_bin;
  }
  // Rounding to quarter-log2 steps alone makes bins vary by 1/12.
  const std::uint64_t n = n_groups;
  const std::uint64_t spread = 12 * (n * squares - sum * sum);
  const std::uint64_t saving = spread <= n * n ? 0 : (spread - n * n) / (12 * n) * kGroupSaving;
  return saving < cost_of_bins(counts);
}

void even_bins(GroupCode* groups, std::size_t n_groups) {
  std::uint64_t sum = 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    sum += groups[g].scale_bin;
  }
  const auto mean = static_cast<std::uint16_t>((2 * sum + n_groups) / (2 * n_groups));
  std::for_each(groups, groups + n_groups, [&](GroupCode& group) { group.scale_bin = mean; });
}

}  // namespace cfck::codec
