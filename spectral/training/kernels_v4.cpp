#define CFCK_CPU_NAMESPACE cpu_v4
#include "spectral/training/kernels.inl"
