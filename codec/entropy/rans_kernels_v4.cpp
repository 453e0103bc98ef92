#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/entropy/rans_kernels.inl"
