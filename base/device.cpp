#include "base/device.hpp"

#include <string>

namespace cfck::detail {

Result<void> check_on_host(Device device, std::string_view name) {
  if (device.kind == DeviceKind::kHost) {
    return {};
  }
  return unsupported(
             "the memory of the tensor is not the host's, which this version of cfck cannot use; "
             "copy the tensor to the host first")
      .in_record(std::string(name));
}

}  // namespace cfck::detail
