#include "base/device.hpp"

#include <string>

namespace cfck::detail {

Result<void> check_on_host(Device device, std::string_view name) {
  if (device.kind == DeviceKind::kHost) {
    return {};
  }
  return unsupported(
             "the memory of the tensor is not the host's: copy the tensor to the host first, or, "
             "to read into the memory of a device, use cfck/cuda.hpp")
      .in_record(std::string(name));
}

}  // namespace cfck::detail
