#include "codec/direct/chunk/even_bins.hpp"

#include <algorithm>

#include "codec/common/bin_codes.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {
namespace {

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
  return saving_of_bins(n_groups, sum, squares) < cost_of_bins(counts);
}

void even_bins(GroupCode* groups, std::size_t n_groups) {
  std::uint64_t sum = 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    sum += groups[g].scale_bin;
  }
  const std::uint16_t mean = mean_bin(n_groups, sum);
  std::for_each(groups, groups + n_groups, [&](GroupCode& group) { group.scale_bin = mean; });
}

}  // namespace cfck::codec
