#define CFCK_CPU_NAMESPACE cpu_v4
#include "spectral/dct_kernels.inl"
