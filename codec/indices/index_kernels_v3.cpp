#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/indices/index_kernels.inl"
