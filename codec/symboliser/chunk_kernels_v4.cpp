#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/symboliser/chunk_kernels.inl"
