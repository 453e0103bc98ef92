#include "codec/direct/kernels/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(DirectKernels, direct_kernel_set)

const DirectKernels& direct_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, direct_kernel_set);
}

const DirectKernels& direct_kernels() noexcept { return direct_kernels_of(cpu_level()); }

}  // namespace cfck::codec
