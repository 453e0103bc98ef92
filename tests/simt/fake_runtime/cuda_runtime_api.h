// This has what examples/load_on_device.cpp takes of CUDA's runtime, for a machine without one
// (fake_runtime.cpp).
#pragma once

#include <cstddef>

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost = 2 };
struct CUstream_st;
using cudaStream_t = CUstream_st*;

cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void** memory, std::size_t n_bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t n_bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n_bytes, cudaMemcpyKind kind);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
const char* cudaGetErrorString(cudaError_t error);
