// Chunks that end where a codec would like them to.
#pragma once

#include <cstdint>

#include "cfck/tensor.hpp"
#include "encode/rules/tensor_choice.hpp"

namespace cfck::encode {

// The chunk length of a tensor with this choice, where `chunk_elems` is that of a tensor without
// one: rows of which as many as a chunk's lanes are searched side by side, or that are
// transformed together, stay together, and none are left over. Requires: the tensor has values.
std::uint64_t align_chunk_elems(const TensorChoice& choice, DType dtype, const Shape& shape,
                                std::uint64_t n_elems, std::uint64_t chunk_elems);

}  // namespace cfck::encode
