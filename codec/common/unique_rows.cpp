#include "codec/common/unique_rows.hpp"

#include <bit>

#include "base/hashing/hashing.hpp"

namespace cfck::codec {

// Open addressing with linear probing, at most half full.
template <class Hash, class Equal>
void RowFinder::number(std::uint32_t n_rows, Numbering& out, Hash&& hash, Equal&& equal) {
  out.clear();
  out.number.resize(n_rows);
  const std::size_t n_slots = std::bit_ceil(2 * std::size_t{n_rows} + 1);
  slots_.assign(n_slots, Slot());
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    const std::uint64_t hashed = hash(row);
    const auto tag = static_cast<std::uint32_t>(hashed >> 32);
    std::size_t at = hashed & (n_slots - 1);
    for (;; at = (at + 1) & (n_slots - 1)) {
      Slot& slot = slots_[at];
      if (slot.number_plus_1 == 0) {
        out.first.push_back(row);
        slot = {tag, out.n_unique()};
        out.number[row] = out.n_unique() - 1;
        break;
      }
      const std::uint32_t known = slot.number_plus_1 - 1;
      if (slot.tag == tag && equal(row, out.first[known])) {
        out.number[row] = known;
        break;
      }
    }
  }
}

void RowFinder::number_rows(const std::byte* rows, std::uint32_t n_rows, std::size_t row_bytes,
                            Numbering& out) {
  number(
      n_rows, out,
      [&](std::uint32_t row) {
        return detail::hash64({rows + row * row_bytes, row_bytes});
      },
      [&](std::uint32_t a, std::uint32_t b) {
        return are_equal(rows + a * row_bytes, rows + b * row_bytes, row_bytes);
      });
}

void RowFinder::number_keys(std::span<const std::int64_t> keys, Numbering& out) {
  number(
      static_cast<std::uint32_t>(keys.size()), out,
      [&](std::uint32_t row) {
        // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
        auto bits = static_cast<std::uint64_t>(keys[row]);
        bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
        bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
        return bits ^ bits >> 31;
      },
      [&](std::uint32_t a, std::uint32_t b) { return keys[a] == keys[b]; });
}

}  // namespace cfck::codec
