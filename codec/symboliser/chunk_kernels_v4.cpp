#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined registers in its own header for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define CFCK_CPU_NAMESPACE cpu_v4
#include "codec/symboliser/chunk_kernels.inl"
