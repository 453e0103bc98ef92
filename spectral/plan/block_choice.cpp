#include "spectral/plan/block_choice.hpp"

#include <algorithm>

#include "spectral/transforms/dct_matrix.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {
namespace {

inline constexpr std::uint8_t kMinTallSide = 8;

std::int16_t mean_of(std::int64_t sum, std::int64_t n) {
  // Rounds to nearest, halves up.
  const std::int64_t twice = 2 * sum + n;
  const std::int64_t quotient = twice / (2 * n);
  return static_cast<std::int16_t>(twice % (2 * n) < 0 ? quotient - 1 : quotient);
}

}  // namespace

Result<void> check_block(std::span<const std::uint8_t> asked) {
  std::uint64_t n_places = 1;
  for (const std::uint8_t side : asked) {
    n_places *= std::clamp<std::uint64_t>(side, 1, kMaxBands + 1);
    if (side < 1 || side > kMaxBlockSide || n_places > kMaxBands) {
      return invalid_argument("a block has sides of 1 to 64 and at most 4096 values");
    }
  }
  return {};
}

bool asks_for_block(std::span<const std::uint64_t> shape, std::span<const std::uint8_t> asked) {
  return !asked.empty() && asked.size() <= shape.size();
}

BlockSides chosen_block(std::span<const std::uint64_t> shape, std::span<const std::uint8_t> asked) {
  if (!asks_for_block(shape, asked)) {
    return kernel_block(shape);
  }
  BlockSides sides;
  const std::span<const std::uint64_t> last = shape.last(asked.size());
  for (std::size_t a = 0; a < asked.size(); ++a) {
    sides.push_back(static_cast<std::uint8_t>(std::min<std::uint64_t>(asked[a], last[a])));
  }
  return sides;
}

bool is_one_value(const BlockSides& sides) {
  return std::ranges::all_of(sides, [](std::uint8_t side) { return side <= 1; });
}

std::uint64_t block_side(const BlockSides& sides, std::size_t n_axes, std::size_t axis) {
  const std::size_t first = n_axes - sides.size();
  return axis < first ? 1 : sides[axis - first];
}

BlockSides tall_block(std::span<const std::uint64_t> shape, std::uint64_t chunk_elems) {
  const bool is_one_chunk = shape[0] * shape[1] <= chunk_elems;
  if (!is_one_chunk && chunk_elems % shape[1] != 0) {
    return {};
  }
  for (std::uint64_t side = kMaxBlockSide; side >= kMinTallSide; side /= 2) {
    if (2 * side <= shape[0] && (is_one_chunk || chunk_elems / shape[1] % side == 0)) {
      return {static_cast<std::uint8_t>(side), 1};
    }
  }
  return {};
}

std::vector<std::int16_t> pooled(const std::vector<std::int16_t>& quarters, std::uint64_t side) {
  if (side == 1) {
    return quarters;
  }
  std::vector<std::int16_t> means;
  for (std::size_t first = 0; first < quarters.size(); first += side) {
    const std::size_t end = std::min<std::size_t>(first + side, quarters.size());
    std::int64_t sum = 0;
    for (std::size_t i = first; i < end; ++i) {
      sum += quarters[i];
    }
    means.push_back(mean_of(sum, static_cast<std::int64_t>(end - first)));
  }
  return means;
}

void pool_ranges(std::vector<std::int16_t>& bands) {
  for (std::uint32_t first = 0; first < bands.size();) {
    const std::uint32_t range = band_range(first);
    std::uint32_t end = first;
    std::int64_t sum = 0;
    for (; end < bands.size() && band_range(end) == range; ++end) {
      sum += bands[end];
    }
    std::fill(bands.begin() + first, bands.begin() + end, mean_of(sum, end - first));
    first = end;
  }
}

}  // namespace cfck::spectral
