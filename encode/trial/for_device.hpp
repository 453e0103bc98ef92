// A device may make this of a record: payloads of codec lossless with the entropy stage `rans`,
// where the host would compare that with nothing else, and what a lossy codec plans for it.
#pragma once

#include <cstdint>
#include <optional>

#include "codec/device_encode_plan.hpp"
#include "encode/trial/candidates.hpp"

namespace cfck::encode {

inline bool may_be_of_device(const Candidate& candidate) noexcept {
  return candidate.lossy != nullptr ||
         (candidate.codec == CodecId::kLossless && candidate.entropy == EntropyId::kRans);
}
inline bool may_be_of_device(const Candidates& candidates) noexcept {
  return candidates.list.size() == 1 && may_be_of_device(candidates.list.front());
}

// Says so before candidates are known, as far as the host's own rule goes without the values, where
// nothing may be lost.
bool tries_device(const EncodePlan& plan);
// And where something may: candidates are needed to know more.
bool may_lose_on_device(const EncodePlan& plan);

// How a device encodes a chunk then; nothing where it has no kernel for that. The first chunk is
// the largest.
std::optional<codec::DeviceEncodePlan> device_plan(const EncodePlan& plan, std::uint64_t chunk);

}  // namespace cfck::encode
