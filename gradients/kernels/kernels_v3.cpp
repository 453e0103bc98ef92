#define CFCK_CPU_NAMESPACE cpu_v3
#include "gradients/kernels/kernels.inl"
