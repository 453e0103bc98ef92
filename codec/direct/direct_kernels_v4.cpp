#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/direct/direct_kernels.inl"
