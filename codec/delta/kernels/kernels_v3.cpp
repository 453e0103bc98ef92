#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/delta/kernels/kernels.inl"
