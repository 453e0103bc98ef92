#define CFCK_CPU_NAMESPACE cpu_v3
#include "codec/symboliser/chunk_kernels.inl"
