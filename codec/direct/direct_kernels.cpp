#include "codec/direct/direct_kernels.hpp"

#include "codec/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(DirectKernels, direct_kernel_set)

const DirectKernels& direct_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, direct_kernel_set);
}

const DirectKernels& direct_kernels() noexcept {
  static const DirectKernels& set = direct_kernels_of(cpu_level());
  return set;
}

}  // namespace cfck::codec
