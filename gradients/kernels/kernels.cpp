#include "gradients/kernels/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::gradients {

using detail::set_of_level;

CFCK_DECLARE_LEVELS(GradientKernels, gradient_kernel_set)

const GradientKernels& gradient_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, gradient_kernel_set);
}

const GradientKernels& gradient_kernels() noexcept {
  return gradient_kernels_of(detail::cpu_level());
}

}  // namespace cfck::gradients
