// A device of NVIDIA behind the interface of device/queue.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/queue.hpp"

namespace cfck::cuda {

// The device of this number, made ready when it is first asked for: its primary context, which
// PyTorch and the runtime of CUDA use too, and its kernels. Lives as long as the process.
class CudaDevice;

// Errors: kUnsupported, with the reason: no driver, one too old, no device code, no such device,
// one too old, a forked child. kIo, kOutOfMemory. Thread-safe.
Result<CudaDevice*> open_device(int number);

// A queue of a device; work goes to `stream`, a CUstream of the caller, nullptr for the default
// stream, and begins after what is there. Errors: kInvalidArgument for a stream of another device;
// kIo.
Result<std::unique_ptr<device::Queue>> open_queue(CudaDevice& device, void* stream);

// Errors: kInvalidArgument where `address` is not memory of the device. `what` names it.
Result<void> check_memory(CudaDevice& device, const void* address, const char* what);

// Copies memory of the device to the host and waits for it. Errors: those of the driver.
// Thread-safe.
Result<void> copy_to_host(CudaDevice& device, MutableBytes to, const std::byte* from);

}  // namespace cfck::cuda
