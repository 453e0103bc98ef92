// The location of the memory of a tensor.
#pragma once

#include <cstdint>

namespace cfck {

enum class DeviceKind : std::uint8_t {
  kHost = 0,  // memory that the CPU reads and writes
  kCuda = 1,  // read into by cfck/cuda.hpp; other calls with such memory fail with kUnsupported
};

struct Device {
  DeviceKind kind = DeviceKind::kHost;
  int index = 0;  // which one of its kind; 0 for the host

  bool operator==(const Device&) const = default;
};

}  // namespace cfck
