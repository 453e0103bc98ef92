#include "codec/device_plan.hpp"

#include "codec/codec.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"

namespace cfck::codec {

std::shared_ptr<const ParametersForDevice> Decoder::parameters_for_device(const ChunkInfo&) const {
  return nullptr;
}

DevicePlan Decoder::plan_for_device(const ChunkInfo&, ByteView, std::uint32_t,
                                    const std::shared_ptr<const ParametersForDevice>&) const {
  return {};
}

Result<void> unpack_mask(const DevicePlan& plan, ByteView payload, Scratch& scratch,
                         MutableBytes out) {
  return decompress_frame(payload.subspan(plan.mask_at, plan.mask_frame_bytes), scratch, out);
}

}  // namespace cfck::codec
