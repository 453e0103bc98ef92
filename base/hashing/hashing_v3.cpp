#define CFCK_HASH_LEVEL(name) name##_v3
#include "base/hashing/hashing_kernel.inl"
