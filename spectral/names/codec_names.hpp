// The codec of this room is written with the names of codec/.
#pragma once

namespace cfck {
namespace codec {}
namespace spectral {
using namespace codec;
}
}  // namespace cfck
