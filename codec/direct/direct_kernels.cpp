#include "codec/direct/direct_kernels.hpp"

namespace cfck::codec {

// One definition each, from direct_kernels_LEVEL.cpp. The headers that this file
// includes are in the first of these namespaces, and have it inline.
inline namespace cpu_baseline {
const DirectKernels& direct_kernel_set() noexcept;
}
#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v3 {
const DirectKernels& direct_kernel_set() noexcept;
}
namespace cpu_v4 {
const DirectKernels& direct_kernel_set() noexcept;
}
#endif

const DirectKernels& direct_kernels_of(CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4) {
    return cpu_v4::direct_kernel_set();
  }
  if (level == CpuLevel::kV3) {
    return cpu_v3::direct_kernel_set();
  }
#endif
  (void)level;
  return cpu_baseline::direct_kernel_set();
}

const DirectKernels& direct_kernels() noexcept {
  static const DirectKernels& set = direct_kernels_of(cpu_level());
  return set;
}

}  // namespace cfck::codec
