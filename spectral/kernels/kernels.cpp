#include "spectral/kernels/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::spectral {

CFCK_DECLARE_LEVELS(SpectralKernels, spectral_kernel_set)

const SpectralKernels& spectral_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, spectral_kernel_set);
}

const SpectralKernels& spectral_kernels() noexcept { return spectral_kernels_of(cpu_level()); }

}  // namespace cfck::spectral
