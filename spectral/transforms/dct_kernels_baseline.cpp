#define CFCK_CPU_NAMESPACE cpu_baseline
#include "spectral/transforms/dct_kernels.inl"
