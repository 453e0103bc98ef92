// The functions of NVIDIA's driver that decoding needs, found when somebody asks for a device. cfck
// links nothing of CUDA: the same build runs with and without a driver.
#pragma once

#include <cstddef>

#include "cfck/status.hpp"

namespace cfck::cuda {

// Types and numbers of the driver's interface (cuda.h), which keeps its names and layout from
// version to version.
using DriverResult = int;  // 0: done
using DriverDevice = int;
using DriverPointer = unsigned long long;
using DriverContext = struct DriverContextObject*;
using DriverModule = struct DriverModuleObject*;
using DriverFunction = struct DriverFunctionObject*;
using DriverStream = struct DriverStreamObject*;
using DriverEvent = struct DriverEventObject*;

inline constexpr DriverResult kDriverInvalidValue = 1;
inline constexpr DriverResult kDriverOutOfMemory = 2;
inline constexpr DriverResult kDriverNoDevice = 100;
inline constexpr int kMultiprocessorCount = 16;  // attributes of a device
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kPointerDevice = 9;  // attribute of an address
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

// The driver's number for CUDA 13.0, which came with the series 580.
inline constexpr int kOldestDriver = 13000;

// The functions, by their names in cuda.h without "cu".
struct Driver {
  DriverResult (*Init)(unsigned flags);
  DriverResult (*DriverGetVersion)(int* version);
  DriverResult (*DeviceGetCount)(int* count);
  DriverResult (*DeviceGet)(DriverDevice* device, int ordinal);
  DriverResult (*DeviceGetAttribute)(int* value, int attribute, DriverDevice device);
  DriverResult (*DevicePrimaryCtxRetain)(DriverContext* context, DriverDevice device);
  DriverResult (*CtxPushCurrent)(DriverContext context);
  DriverResult (*CtxPopCurrent)(DriverContext* context);
  DriverResult (*ModuleLoadData)(DriverModule* module, const void* image);
  DriverResult (*ModuleGetFunction)(DriverFunction* function, DriverModule module,
                                    const char* name);
  DriverResult (*OccupancyMaxActiveBlocksPerMultiprocessor)(int* n_blocks, DriverFunction function,
                                                            int n_threads,
                                                            std::size_t shared_bytes);
  DriverResult (*LaunchKernel)(DriverFunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, DriverStream stream,
                               void** parameters, void** extra);
  DriverResult (*StreamCreate)(DriverStream* stream, unsigned flags);
  DriverResult (*StreamDestroy)(DriverStream stream);
  DriverResult (*StreamGetCtx)(DriverStream stream, DriverContext* context);
  DriverResult (*StreamWaitEvent)(DriverStream stream, DriverEvent event, unsigned flags);
  DriverResult (*StreamSynchronize)(DriverStream stream);
  DriverResult (*EventCreate)(DriverEvent* event, unsigned flags);
  DriverResult (*EventRecord)(DriverEvent event, DriverStream stream);
  DriverResult (*EventSynchronize)(DriverEvent event);
  DriverResult (*EventDestroy)(DriverEvent event);
  DriverResult (*MemAlloc)(DriverPointer* address, std::size_t n_bytes);
  DriverResult (*MemFree)(DriverPointer address);
  DriverResult (*MemcpyHtoDAsync)(DriverPointer to, const void* from, std::size_t n_bytes,
                                  DriverStream stream);
  DriverResult (*MemcpyDtoHAsync)(void* to, DriverPointer from, std::size_t n_bytes,
                                  DriverStream stream);
  DriverResult (*PointerGetAttribute)(void* value, int attribute, DriverPointer address);
  DriverResult (*GetErrorString)(DriverResult error, const char** text);
};

// Returns the driver, ready for use. Looks for libcuda.so.1, or for the absolute path in
// CFCK_CUDA_DRIVER (ignored by programs with privileges of another user). Errors: kUnsupported,
// where there is no driver, where it is older than kOldestDriver, and in a child forked after the
// parent used CUDA. Thread-safe.
Result<const Driver*> open_driver();

// Returns the error of a call: kOutOfMemory for the device's memory, otherwise kIo. `what` says
// what was tried, and `device` on which one, if it is not -1.
Error driver_error(const Driver& driver, DriverResult result, const char* what, int device = -1);

}  // namespace cfck::cuda
