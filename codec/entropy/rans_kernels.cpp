#include "codec/entropy/rans_kernels.hpp"

#include "codec/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(RansKernels, rans_kernel_set)

const RansKernels& rans_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, rans_kernel_set);
}

const RansKernels& rans_kernels() noexcept { return rans_kernels_of(cpu_level()); }

}  // namespace cfck::codec
