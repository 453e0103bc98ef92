#include "codec/device_plan.hpp"

#include "codec/codec.hpp"

namespace cfck::codec {

std::shared_ptr<const ParametersForDevice> Decoder::parameters_for_device(const ChunkInfo&) const {
  return nullptr;
}

DevicePlan Decoder::plan_for_device(const ChunkInfo&, ByteView, std::uint32_t,
                                    const std::shared_ptr<const ParametersForDevice>&) const {
  return {};
}

}  // namespace cfck::codec
