#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/indices/index_kernels.inl"
