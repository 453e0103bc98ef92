// Decodes all tensors of a file on an NVIDIA device, into memory that the program owns.
//
//   load_on_device FILE [DEVICE]
//
// Only the memory and the stream are made with CUDA's runtime: cfck itself needs no CUDA toolkit.
#include <cuda_runtime_api.h>

#include <cfck/cuda.hpp>
#include <cfck/reader.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

cfck::Result<void> check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    return cfck::Error{cfck::ErrorCode::kIo,
                       std::string("CUDA cannot ") + what + ": " + cudaGetErrorString(error),
                       {},
                       {}};
  }
  return {};
}

// Memory of a device, or pinned memory of the host, from which copies to a device are fastest.
struct FreeDeviceMemory {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreePinnedMemory {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
using DeviceMemory = std::unique_ptr<void, FreeDeviceMemory>;
using PinnedMemory = std::unique_ptr<void, FreePinnedMemory>;

cfck::Result<DeviceMemory> device_memory(std::size_t n_bytes) {
  void* memory = nullptr;
  CFCK_TRY(check(cudaMalloc(&memory, n_bytes), "get memory of the device"));
  return DeviceMemory(memory);
}

cfck::Result<PinnedMemory> pinned_memory(std::size_t n_bytes) {
  void* memory = nullptr;
  CFCK_TRY(check(cudaMallocHost(&memory, n_bytes), "get pinned memory"));
  return PinnedMemory(memory);
}

cfck::Result<void> run(const std::string& path, int device) {
  // Says why a device cannot be used: no driver, an old one, no such device, no device code.
  CFCK_TRY(cfck::cuda::availability(device));
  CFCK_TRY(check(cudaSetDevice(device), "use the device"));
  CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(path));

  std::vector<DeviceMemory> tensors;
  std::vector<cfck::cuda::Read> reads;
  for (const cfck::Record& record : reader.records()) {
    if (record.hidden || record.decoded_bytes == 0) {
      continue;
    }
    CFCK_TRY_ASSIGN(DeviceMemory out, device_memory(record.decoded_bytes));
    reads.push_back({&record, {static_cast<std::byte*>(out.get()), record.decoded_bytes}});
    tensors.push_back(std::move(out));
  }

  // One call for all tensors, not one for each.
  CFCK_TRY_ASSIGN(auto decoder, cfck::cuda::Decoder::plan(reader, reads, device));
  CFCK_TRY_ASSIGN(const DeviceMemory workspace, device_memory(decoder.workspace_bytes()));
  CFCK_TRY_ASSIGN(const PinnedMemory staging, pinned_memory(decoder.staging_bytes()));
  cudaStream_t stream = nullptr;
  CFCK_TRY(check(cudaStreamCreate(&stream), "make a stream"));
  const std::unique_ptr<CUstream_st, cudaError_t (*)(cudaStream_t)> owner(stream,
                                                                          cudaStreamDestroy);
  CFCK_TRY(decoder.enqueue(workspace.get(),
                           {static_cast<std::byte*>(staging.get()), decoder.staging_bytes()},
                           {device, stream}));
  CFCK_TRY_ASSIGN(const cfck::cuda::Summary summary, decoder.finish());  // waits

  std::printf("%zu tensors: %llu bytes decoded by the device, %llu by the host\n", reads.size(),
              static_cast<unsigned long long>(summary.device_bytes),
              static_cast<unsigned long long>(summary.host_bytes));
  if (!reads.empty() && reads.front().record->dtype == cfck::DType::kF32) {
    float first = 0;
    CFCK_TRY(check(cudaMemcpy(&first, tensors.front().get(), 4, cudaMemcpyDeviceToHost), "copy"));
    std::printf("%s begins with %g\n", reads.front().record->name.c_str(), double{first});
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: load_on_device FILE [DEVICE]\n");
    return 2;
  }
  const cfck::Result<void> result = run(argv[1], argc == 3 ? std::atoi(argv[2]) : 0);
  if (!result) {
    std::fprintf(stderr, "load_on_device: %s\n", result.error().to_string().c_str());
    return 1;
  }
  return 0;
}
