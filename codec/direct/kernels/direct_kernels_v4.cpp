#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/direct/kernels/direct_kernels.inl"
