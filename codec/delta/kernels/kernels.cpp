#include "codec/delta/kernels/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(DeltaKernelSet, delta_kernel_set)

#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v4_vbmi {
const DeltaKernelSet& delta_kernel_set() noexcept;
}
#endif

const DeltaKernelSet& delta_kernels_of(CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4 && has_vbmi2()) {
    return cpu_v4_vbmi::delta_kernel_set();
  }
#endif
  return CFCK_SET_OF_LEVEL(level, delta_kernel_set);
}

const DeltaKernels& delta_kernels(unsigned word_bytes) noexcept {
  return delta_kernels_of(cpu_level()).of_bytes[std::countr_zero(word_bytes)];
}

}  // namespace cfck::codec
