#include "spectral/transforms/dct_kernels.hpp"

namespace cfck::spectral {

inline namespace cpu_baseline {
const DctKernels& dct_kernel_set() noexcept;
}
#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v3 {
const DctKernels& dct_kernel_set() noexcept;
}
namespace cpu_v4 {
const DctKernels& dct_kernel_set() noexcept;
}
#endif

const DctKernels& dct_kernels_of([[maybe_unused]] CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4) return cpu_v4::dct_kernel_set();
  if (level == CpuLevel::kV3) return cpu_v3::dct_kernel_set();
#endif
  return cpu_baseline::dct_kernel_set();
}

}  // namespace cfck::spectral
