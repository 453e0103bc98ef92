#define CFCK_CPU_NAMESPACE cpu_v4_vbmi
#include "codec/delta/kernels/kernels.inl"
