// The sizes of a tensor whose dimensions are not in a Shape: the functions of cfck/tensor.hpp
// without its memory.
#pragma once

#include <cstdint>
#include <span>

#include "base/names/detail.hpp"
#include "cfck/dtype.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

Result<std::uint64_t> count_elems(std::span<const std::uint64_t> dimensions);
Result<std::uint64_t> count_bytes(DType dtype, std::span<const std::uint64_t> dimensions);

}  // namespace cfck::detail
