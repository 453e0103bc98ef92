#define CFCK_CPU_NAMESPACE cpu_baseline
#include "spectral/kernels/kernels.inl"
