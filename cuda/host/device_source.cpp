// Files in the memory of a device (cfck/cuda.hpp).
#include "base/files/check_range.hpp"
#include "base/run_guarded.hpp"
#include "cfck/cuda.hpp"
#include "cuda/host/cuda_device.hpp"

namespace cfck::cuda {

Result<std::unique_ptr<DeviceSource>> DeviceSource::open(int device, const void* data,
                                                         std::uint64_t n_bytes) {
  return run_guarded([&]() -> Result<std::unique_ptr<DeviceSource>> {
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device));
    if (n_bytes != 0) {
      CFCK_TRY(check_memory(*on, data, "the memory of the source"));
    }
    return std::unique_ptr<DeviceSource>(
        new DeviceSource(device, static_cast<const std::byte*>(data), n_bytes));
  });
}

Result<void> DeviceSource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY(check_range(offset_bytes, out.size(), n_bytes_, name()));
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device_));
    return copy_to_host(*on, out, data_ + offset_bytes);
  });
}

const std::byte* DeviceSource::on_device(Device device) const {
  return device == Device{DeviceKind::kCuda, device_} ? data_ : nullptr;
}

}  // namespace cfck::cuda
