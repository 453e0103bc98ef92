// The kernels of every format, as each CPU level has them.
#pragma once

#include <tuple>

#include "base/cpu_level.hpp"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

using KernelSet =
    std::tuple<ChunkKernels<FormatF64>, ChunkKernels<FormatF32>, ChunkKernels<FormatBf16>,
               ChunkKernels<FormatF16>, ChunkKernels<FormatE5m2>, ChunkKernels<FormatE5m2Fnuz>,
               ChunkKernels<FormatE4m3>>;

// Requires: `level` is not above cpu_level(). Without code for a level of its own
// an architecture has the baseline at every level.
const KernelSet& kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec
