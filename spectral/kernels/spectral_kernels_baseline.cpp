#define CFCK_CPU_NAMESPACE cpu_baseline
#include "spectral/kernels/spectral_kernels.inl"
