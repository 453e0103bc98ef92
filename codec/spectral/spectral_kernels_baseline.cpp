#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/spectral/spectral_kernels.inl"
