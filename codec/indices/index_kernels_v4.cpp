#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/indices/index_kernels.inl"
