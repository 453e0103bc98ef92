#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/direct/kernels/kernels.inl"
