// Compares what cuda/host/driver.hpp says of NVIDIA's driver with NVIDIA's own header: names of
// functions, sizes of their parameters, numbers. Built where that header is.
#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "cuda/host/driver.hpp"

namespace cfck::cuda {
namespace {

// Whether calls pass the same: pointers for pointers, and other values of the same size.
template <class A, class B>
inline constexpr bool kPassTheSame =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class A, class B>
inline constexpr bool kAreCalledAlike = false;
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) ==
         sizeof...(Bs)) inline constexpr bool kAreCalledAlike<A (*)(As...), B (*)(Bs...)> =
    kPassTheSame<A, B> && (kPassTheSame<As, Bs> && ...);

#define CFCK_TEXT_OF(text) #text
#define CFCK_TEXT(text) CFCK_TEXT_OF(text)
// The header gives a function the name of its newest version.
#define EXPECT_FUNCTION(name, symbol)        \
  EXPECT_STREQ(CFCK_TEXT(cu##name), symbol); \
  static_assert(kAreCalledAlike<decltype(Driver::name), decltype(&cu##name)>)

TEST(DriverDeclarations, FunctionsAreThoseOfTheHeader) {
  EXPECT_FUNCTION(Init, "cuInit");
  EXPECT_FUNCTION(DriverGetVersion, "cuDriverGetVersion");
  EXPECT_FUNCTION(DeviceGetCount, "cuDeviceGetCount");
  EXPECT_FUNCTION(DeviceGet, "cuDeviceGet");
  EXPECT_FUNCTION(DeviceGetAttribute, "cuDeviceGetAttribute");
  EXPECT_FUNCTION(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  EXPECT_FUNCTION(CtxPushCurrent, "cuCtxPushCurrent_v2");
  EXPECT_FUNCTION(CtxPopCurrent, "cuCtxPopCurrent_v2");
  EXPECT_FUNCTION(ModuleLoadData, "cuModuleLoadData");
  EXPECT_FUNCTION(ModuleGetFunction, "cuModuleGetFunction");
  EXPECT_FUNCTION(OccupancyMaxActiveBlocksPerMultiprocessor,
                  "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  EXPECT_FUNCTION(LaunchKernel, "cuLaunchKernel");
  EXPECT_FUNCTION(StreamCreate, "cuStreamCreate");
  EXPECT_FUNCTION(StreamDestroy, "cuStreamDestroy_v2");
  EXPECT_FUNCTION(StreamGetCtx, "cuStreamGetCtx");
  EXPECT_FUNCTION(StreamWaitEvent, "cuStreamWaitEvent");
  EXPECT_FUNCTION(StreamSynchronize, "cuStreamSynchronize");
  EXPECT_FUNCTION(EventCreate, "cuEventCreate");
  EXPECT_FUNCTION(EventRecord, "cuEventRecord");
  EXPECT_FUNCTION(EventSynchronize, "cuEventSynchronize");
  EXPECT_FUNCTION(EventDestroy, "cuEventDestroy_v2");
  EXPECT_FUNCTION(MemAlloc, "cuMemAlloc_v2");
  EXPECT_FUNCTION(MemFree, "cuMemFree_v2");
  EXPECT_FUNCTION(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  EXPECT_FUNCTION(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  EXPECT_FUNCTION(PointerGetAttribute, "cuPointerGetAttribute");
  EXPECT_FUNCTION(GetErrorString, "cuGetErrorString");
}

TEST(DriverDeclarations, NumbersAreThoseOfTheHeader) {
  static_assert(CUDA_SUCCESS == 0);
  EXPECT_EQ(int{CUDA_ERROR_INVALID_VALUE}, kDriverInvalidValue);
  EXPECT_EQ(int{CUDA_ERROR_OUT_OF_MEMORY}, kDriverOutOfMemory);
  EXPECT_EQ(int{CUDA_ERROR_NO_DEVICE}, kDriverNoDevice);
  EXPECT_EQ(int{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT}, kMultiprocessorCount);
  EXPECT_EQ(int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR}, kCapabilityMajor);
  EXPECT_EQ(int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR}, kCapabilityMinor);
  EXPECT_EQ(int{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL}, kPointerDevice);
  EXPECT_EQ(unsigned{CU_STREAM_NON_BLOCKING}, kStreamNonBlocking);
  EXPECT_EQ(unsigned{CU_EVENT_DISABLE_TIMING}, kEventDisableTiming);
  EXPECT_EQ(sizeof(CUdeviceptr), sizeof(DriverPointer));
  EXPECT_LE(kOldestDriver, CUDA_VERSION);
}

}  // namespace
}  // namespace cfck::cuda
