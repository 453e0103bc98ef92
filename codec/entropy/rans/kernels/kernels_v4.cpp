#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/entropy/rans/kernels/kernels.inl"
