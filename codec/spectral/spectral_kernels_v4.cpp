#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/spectral/spectral_kernels.inl"
