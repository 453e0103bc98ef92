#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/direct/kernels/direct_kernels.inl"
