#include "spectral/training/kernels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::spectral {

CFCK_DECLARE_LEVELS(TrainingKernels, training_kernel_set)

const TrainingKernels& training_kernels_of(CpuLevel level) noexcept {
  return CFCK_SET_OF_LEVEL(level, training_kernel_set);
}

const TrainingKernels& training_kernels() noexcept { return training_kernels_of(cpu_level()); }

}  // namespace cfck::spectral
