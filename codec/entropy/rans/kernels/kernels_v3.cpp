#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/entropy/rans/kernels/kernels.inl"
