#include "codec/entropy/rans/kernels/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(RansKernels, rans_kernel_set)

#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v4_vbmi {
const RansKernels& rans_kernel_set() noexcept;
}
#endif

const RansKernels& rans_kernels_of(CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4 && has_vbmi2()) {
    return cpu_v4_vbmi::rans_kernel_set();
  }
#endif
  return CFCK_SET_OF_LEVEL(level, rans_kernel_set);
}

const RansKernels& rans_kernels() noexcept { return rans_kernels_of(cpu_level()); }

}  // namespace cfck::codec
