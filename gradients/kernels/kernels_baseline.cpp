#define CFCK_CPU_NAMESPACE cpu_baseline
#include "gradients/kernels/kernels.inl"
