#include "base/cpu/x86_intrinsics.hpp"
//
#define CFCK_HASH_LEVEL(name) name##_v4
#include "base/hashing/hashing_kernel.inl"
