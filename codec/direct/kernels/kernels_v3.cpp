#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/direct/kernels/kernels.inl"
