#define CFCK_CPU_NAMESPACE cpu_baseline
#include "spectral/training/kernels.inl"
