#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/direct/direct_kernels.inl"
