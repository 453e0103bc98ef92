// Equal rows of a batch.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "cfck/tensor.hpp"

namespace cfck::codec {

// Numbers for rows: equal rows have the same one, and numbers ascend in order of first appearance.
struct Numbering {
  std::vector<std::uint32_t> number;  // of each row
  std::vector<std::uint32_t> first;   // of each number: the first row that has it

  std::uint32_t n_unique() const noexcept { return static_cast<std::uint32_t>(first.size()); }
  void clear() {
    number.clear();
    first.clear();
  }
};

// Rows without values may have no address, which memcmp() must have.
inline bool are_equal(const std::byte* a, const std::byte* b, std::size_t row_bytes) noexcept {
  return row_bytes == 0 || std::memcmp(a, b, row_bytes) == 0;
}

// A hash table that is kept from batch to batch. Not thread-safe.
class RowFinder {
 public:
  // Numbers rows of row_bytes by their bytes. Throws std::bad_alloc.
  void number_rows(const std::byte* rows, std::uint32_t n_rows, std::size_t row_bytes,
                   Numbering& out);
  void number_keys(std::span<const std::int64_t> keys, Numbering& out);

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t number_plus_1 = 0;  // 0: nothing is here
  };

  template <class Hash, class Equal>
  void number(std::uint32_t n_rows, Numbering& out, Hash&& hash, Equal&& equal);

  std::vector<Slot> slots_;
};

}  // namespace cfck::codec
