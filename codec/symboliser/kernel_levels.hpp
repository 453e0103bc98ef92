// The kernels of every format, as each CPU level has them.
#pragma once

#include <tuple>

#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

using KernelSet =
    std::tuple<ChunkKernels<FormatF64>, ChunkKernels<FormatF32>, ChunkKernels<FormatBf16>,
               ChunkKernels<FormatF16>, ChunkKernels<FormatE5m2>, ChunkKernels<FormatE5m2Fnuz>,
               ChunkKernels<FormatE4m3>>;

}  // namespace cfck::codec
