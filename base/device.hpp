// Memory that this build cannot reach is refused where it comes in.
#pragma once

#include <string_view>

#include "base/names/detail.hpp"
#include "cfck/device.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// kUnsupported, with the name of the tensor, for memory that is not the host's.
Result<void> check_on_host(Device device, std::string_view name);

}  // namespace cfck::detail
