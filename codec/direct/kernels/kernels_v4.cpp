#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/direct/kernels/kernels.inl"
