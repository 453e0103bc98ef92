#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/entropy/rans/kernels/kernels.inl"
