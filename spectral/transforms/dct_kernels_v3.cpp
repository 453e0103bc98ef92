#define CFCK_CPU_NAMESPACE cpu_v3
#include "spectral/transforms/dct_kernels.inl"
