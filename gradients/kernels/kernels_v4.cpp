#define CFCK_CPU_NAMESPACE cpu_v4
#include "gradients/kernels/kernels.inl"
