// The elements of a view in row-major order, as if they were contiguous.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/record.hpp"

namespace cfck::format {

// Reads a strided view of memory by range, so that a view need not be copied as
// a whole before it is encoded. Whole bytes per element only.
class GatherSource final : public ByteSource {
 public:
  // Requires: dtype of at least 8 bits; every element readable; the product of
  // the shape and all offsets inside 63 bits.
  GatherSource(const std::byte* data, DType dtype, const Shape& shape,
               const std::vector<std::uint64_t>& strides);

  std::uint64_t size() const override { return n_elems_ * elem_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;

 private:
  struct Axis {
    std::uint64_t size;
    std::uint64_t stride;  // in elements
  };
  void copy_run(std::uint64_t first, std::uint64_t stride, std::uint64_t n, std::byte* out) const;

  const std::byte* data_;
  std::uint64_t elem_bytes_;
  std::uint64_t n_elems_ = 1;
  std::vector<Axis> axes_;  // outermost first; sizes above 1; those that join are joined
};

}  // namespace cfck::format
