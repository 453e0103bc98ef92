#include "codec/common/zero_mask.hpp"

#include <bit>

namespace cfck::codec {

bool is_mask_of(ByteView mask, std::size_t n_values, std::size_t n_masked) {
  std::size_t n_set = 0;
  for (const std::byte eight : mask) {
    n_set += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(eight)));
  }
  const bool trailing_zero_end =
      n_values % 8 == 0 || (static_cast<unsigned>(mask.back()) >> (n_values % 8)) == 0;
  return trailing_zero_end && n_set == n_masked;
}

}  // namespace cfck::codec
