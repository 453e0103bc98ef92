#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/delta/kernels/kernels.inl"
