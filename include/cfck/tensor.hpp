// Views of tensors. None of these types owns the bytes it refers to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cfck/device.hpp"
#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/status.hpp"

namespace cfck {

using ByteView = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Dimensions, outermost first; empty for a 0-d tensor (one element).
using Shape = std::vector<std::uint64_t>;

// A contiguous row-major tensor, little-endian, sub-byte types packed with the least significant
// bits first. Memory that is not the host's is kUnsupported.
struct TensorView {
  DType dtype = DType::kU8;
  Shape shape;
  ByteView data;  // exactly n_bytes(dtype, shape) bytes
  Device device = {};
};

// Returns the number of elements. Error: kLimitExceeded where the product of the non-zero
// dimensions does not fit 63 bits, even if another dimension is zero.
CFCK_API Result<std::uint64_t> n_elems(const Shape& shape);

// Returns the number of bytes of the contiguous tensor. Errors: as n_elems, also when bytes
// overflow; kInvalidArgument for a sub-byte tensor that does not fill whole bytes (safetensors
// refuses those too); kUnsupported for an unknown dtype.
CFCK_API Result<std::uint64_t> n_bytes(DType dtype, const Shape& shape);

}  // namespace cfck
