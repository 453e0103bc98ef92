#include "codec/indices/index_kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(IndexKernels, index_kernel_set)

const IndexKernels& index_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, index_kernel_set);
}

const IndexKernels& index_kernels() noexcept { return index_kernels_of(cpu_level()); }

}  // namespace cfck::codec
