#include "encode/trial/for_device.hpp"

#include "encode/rules/encode_rules.hpp"
#include "encode/trial/probes.hpp"

namespace cfck::encode {

bool tries_device(const EncodePlan& plan) {
  const TensorChoice& choice = plan.choice;
  return !choice.is_lossy() && choice.codec != CodecChoice::kRaw &&
         exact_codec(choice.codec) == CodecId::kLossless && plan.base_tensor == nullptr &&
         has_one_stage(plan, EntropyId::kRans);
}

bool may_lose_on_device(const EncodePlan& plan) {
  if (!plan.choice.is_lossy() || plan.choice.needs_step() || plan.level == EncodeLevel::kArchive ||
      plan.base_tensor != nullptr) {
    return false;
  }
  const codec::LossyRecord record = lossy_record(plan, {}, plan.entropy, plan.level);
  return codec::find_lossy_encoder(plan.choice.lossy_codec)->room_on_device(record).has_value();
}

std::optional<codec::DeviceEncodePlan> device_plan(const EncodePlan& plan, std::uint64_t chunk) {
  codec::ChunkInfo info = sampled_chunk_info(plan, chunk);
  info.entropy = EntropyId::kRans;
  return codec::find_encoder(CodecId::kLossless)->plan_for_device(info);
}

}  // namespace cfck::encode
