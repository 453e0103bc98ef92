#define CFCK_CPU_NAMESPACE cpu_v3
#include "spectral/kernels/spectral_kernels.inl"
