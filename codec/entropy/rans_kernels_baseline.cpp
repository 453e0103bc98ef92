#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/entropy/rans_kernels.inl"
