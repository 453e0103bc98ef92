#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/spectral/spectral_kernels.inl"
