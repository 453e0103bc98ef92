#define CFCK_CPU_NAMESPACE cpu_baseline
#include "spectral/dct_kernels.inl"
