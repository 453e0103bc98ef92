#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes undefined registers in its own header for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define CFCK_CPU_NAMESPACE cpu_v4_vbmi
#include "codec/symboliser/chunk_kernels.inl"
