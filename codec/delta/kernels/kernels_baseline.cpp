#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/delta/kernels/kernels.inl"
