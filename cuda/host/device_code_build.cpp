#include <string>

#include "cfck/version.hpp"
#include "codec/device_batch.hpp"
#include "codec/device_encode_batch.hpp"
#include "codec/entropy/rans/device_tables.hpp"
#include "cuda/host/device_code.hpp"
#include "device/batches.hpp"

namespace cfck::cuda {

const char* device_code_build() {
  static const std::string kBuild = [] {
    std::string build = "cfck " + std::to_string(CFCK_VERSION_MAJOR) + "." +
                        std::to_string(CFCK_VERSION_MINOR) + "." +
                        std::to_string(CFCK_VERSION_PATCH) + ", device interface " +
                        std::to_string(kDeviceInterface) + ", sizes";
    for (const std::size_t size :
         {sizeof(codec::DeviceChunk), sizeof(codec::DeviceParameters), sizeof(codec::DeviceBatch),
          sizeof(device::Extent), sizeof(device::Copy), sizeof(device::Gather),
          sizeof(codec::DeviceTable), sizeof(codec::DeviceEncodeBatch),
          sizeof(codec::DeviceEncodeChunk), sizeof(device::Range), sizeof(device::Frame),
          sizeof(device::Message), sizeof(device::Messages)}) {
      build += " " + std::to_string(size);
    }
    return build;
  }();
  return kBuild.c_str();
}

}  // namespace cfck::cuda
