// A runtime of CUDA over the fake driver, whose memory is that of the process.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "cuda_runtime_api.h"

namespace {

constexpr std::size_t kAlignment = 256;

cudaError_t get_memory(void** memory, std::size_t n_bytes) {
  *memory = std::aligned_alloc(kAlignment, (n_bytes + kAlignment - 1) / kAlignment * kAlignment);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// A function of the driver that the environment variable names, which is open already.
template <class Function>
Function driver_function(const char* name) {
  void* const driver = ::dlopen(std::getenv("CFCK_CUDA_DRIVER"), RTLD_NOW);
  return reinterpret_cast<Function>(::dlsym(driver, name));
}

}  // namespace

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, std::size_t n_bytes) { return get_memory(memory, n_bytes); }
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t n_bytes) {
  return get_memory(memory, n_bytes);
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n_bytes, cudaMemcpyKind) {
  std::memcpy(to, from, n_bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const auto create = driver_function<int (*)(cudaStream_t*, unsigned)>("cuStreamCreate");
  return static_cast<cudaError_t>(create(stream, 0));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto destroy = driver_function<int (*)(cudaStream_t)>("cuStreamDestroy_v2");
  return static_cast<cudaError_t>(destroy(stream));
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake runtime";
}
