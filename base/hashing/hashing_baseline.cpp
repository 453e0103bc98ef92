#define CFCK_HASH_LEVEL(name) name##_baseline
#include "base/hashing/hashing_kernel.inl"
