// The wanted elements of a stored tensor, and their destinations: slices, flat ranges and aliases
// are all views with strides.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::format {

// Returns the byte in which element `elem` of a packed tensor starts; exact where it starts on a
// byte.
constexpr std::uint64_t byte_of(std::uint64_t elem, unsigned bits) noexcept {
  return bits >= 8 ? elem * (bits / 8) : elem / 8 * bits + elem % 8 * bits / 8;
}

// Copies elements of any width; positions count elements. Elements below a byte
// that share a byte with others leave those alone.
void copy_elems(MutableBytes to, std::uint64_t to_elem, ByteView from, std::uint64_t from_elem,
                std::uint64_t n_elems, unsigned bits) noexcept;

// Element (i0, i1, ...) is at offset + i0 * strides[0] + ... of the stored tensor; `flat` numbers
// them in row-major order. There is at least one element, and all are inside a tensor of fewer than
// 2^63.
class ElementView {
 public:
  ElementView(std::uint64_t offset, const Shape& shape, const std::vector<std::uint64_t>& strides);
  // Views elements [offset, offset + n_elems).
  ElementView(std::uint64_t offset, std::uint64_t n_elems);

  std::uint64_t offset() const noexcept { return offset_; }
  // Without dimensions of 1, and with neighbours merged where they can be one dimension.
  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }
  const std::vector<std::uint64_t>& strides() const noexcept { return strides_; }

  std::uint64_t element_of(std::uint64_t flat) const noexcept;
  // Returns the first flat index in [first, end) whose element is not below `element`, or end.
  // Requires: increasing().
  std::uint64_t lower_bound(std::uint64_t first, std::uint64_t end,
                            std::uint64_t element) const noexcept;
  // Number of adjacent elements from `flat` on.
  std::uint64_t run_from(std::uint64_t flat) const noexcept { return run_ - flat % run_; }
  // True if a larger flat index always means a later element.
  bool increasing() const noexcept;
  // True if every run starts and ends on whole bytes.
  bool whole_bytes(unsigned bits) const noexcept;
  // Bounds: the largest element of flat indices up to `last_flat` is not above the one, the
  // smallest from `first_flat` on not below the other; as exact as rows of axis 0 are.
  std::uint64_t lowest(std::uint64_t first_flat) const noexcept;
  std::uint64_t highest(std::uint64_t last_flat) const noexcept;

  // Copies flat elements [first, first + n_elems) to the start of `to`; `from` holds the
  // stored tensor from element `from_first` on.
  void gather(MutableBytes to, ByteView from, std::uint64_t from_first, std::uint64_t first,
              std::uint64_t n_elems, unsigned bits) const noexcept;

 private:
  std::uint64_t offset_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t row_ = 1;  // elements of a row of axis 0
  std::uint64_t run_ = 1;
};

}  // namespace cfck::format
