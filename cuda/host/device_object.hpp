// The inside of a device, for the sources of this folder: what it keeps, and its context.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/host/cuda_device.hpp"
#include "cuda/host/driver.hpp"
#include "cuda/host/kernels.hpp"

namespace cfck::cuda {

inline DriverPointer address_of(const void* pointer) {
  return static_cast<DriverPointer>(reinterpret_cast<std::uintptr_t>(pointer));
}

// A queue takes these of the driver, and they are kept for the next one: making it takes as long as
// planning a small load.
struct QueueResources {
  DriverStream copies = nullptr;
  // Hashing waits for memory and decoding for instructions: they go on side by side.
  DriverStream hashes = nullptr;
  DriverStream lane = nullptr;  // beside the caller's stream
  std::vector<DriverEvent> events;

  std::array<DriverStream, 3> streams() const { return {copies, hashes, lane}; }
};

class CudaDevice {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(const Driver& driver, int number);

  const Driver& driver() const { return driver_; }
  DriverContext context() const { return context_; }
  int number() const { return number_; }
  // The error of a call of the driver, if it is one.
  Result<void> check(DriverResult result, const char* what) const {
    return result == 0 ? Result<void>()
                       : Result<void>(driver_error(driver_, result, what, number_));
  }
  // Loads the code that has the kernel at its first use. Requires, as what follows: the context is
  // current.
  Result<DriverFunction> function_of(const KernelForm& form);
  // Chooses the form of a kernel for so many items.
  Result<FormLaunch> form_of(device::Kernel kernel, std::uint32_t n_items);
  Result<void> copy_to_host(MutableBytes to, const std::byte* from);
  // Queue::keep().
  Result<const std::byte*> keep(ByteView constants);
  // Returns those of an earlier queue, or new ones.
  Result<QueueResources> take_resources();
  // Requires: nothing of them has failed.
  void give_back(QueueResources resources);
  void destroy(const QueueResources& resources) const;

 private:
  CudaDevice(const Driver& driver, int number) : driver_(driver), number_(number) {}
  Result<void> prepare();
  // How many blocks of a form a multiprocessor holds at the same time.
  Result<unsigned> n_fitting(const KernelForm& form);
  // Copies to the device, and waits for it.
  Result<void> copy_from_host(DriverPointer to, ByteView from);
  // The stream of the copies that somebody waits for; with `copying_` held.
  Result<DriverStream> own_stream();
  Result<void> wait_for_copy(const char* what);

  const Driver& driver_;
  const int number_;
  DriverContext context_ = nullptr;
  unsigned n_multiprocessors_ = 1;
  std::mutex mutex_;
  std::map<std::string, DriverModule> modules_;  // by the sources of their kernels
  std::map<const KernelForm*, DriverFunction> functions_;
  std::map<const KernelForm*, unsigned> n_fitting_;  // blocks that a multiprocessor holds
  std::mutex copying_;
  DriverStream copies_ = nullptr;
  std::mutex keeping_;
  std::map<const std::byte*, DriverPointer> kept_;  // by their addresses on the host
  std::mutex resources_mutex_;
  std::vector<QueueResources> idle_;
};

// Makes the context of a device current on this thread, and then what was current before.
class CurrentContext {
 public:
  explicit CurrentContext(CudaDevice& device) : device_(device) {
    result_ = device.driver().CtxPushCurrent(device.context());
  }
  ~CurrentContext() {
    DriverContext context = nullptr;
    if (result_ == 0) {
      (void)device_.driver().CtxPopCurrent(&context);
    }
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  Result<void> check() const { return device_.check(result_, "use the device"); }

 private:
  const CudaDevice& device_;
  DriverResult result_ = 0;
};

}  // namespace cfck::cuda
