#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/symboliser/chunk_kernels.inl"
