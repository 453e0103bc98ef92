// Marks functions that a device has too, where there is a compiler for it.
#pragma once

#ifdef __CUDACC__
#define CFCK_HD __host__ __device__
#else
#define CFCK_HD
#endif
