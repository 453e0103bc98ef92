#include "encode/trial/probes.hpp"

#include <algorithm>

#include "encode/rules/encode_rules.hpp"

namespace cfck::encode {
namespace {

constexpr std::uint64_t kProbeElems = 4096;

}  // namespace

EntropyId wanted_stage(const EncodePlan& plan) {
  return codec::find_encoder(exact_codec(plan.choice.codec))->entropy_for(plan.dtype, plan.entropy);
}

std::uint64_t probed_elems(const EncodePlan& plan) noexcept {
  return std::min(kProbeElems, plan.geometry.elems_of(0));
}

std::vector<std::uint64_t> sampled_chunks(const EncodePlan& plan) {
  const std::uint64_t n_chunks = plan.geometry.n_chunks;
  std::vector<std::uint64_t> chunks{0, n_chunks / 2, n_chunks - 1};
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

codec::ChunkInfo sampled_chunk_info(const EncodePlan& plan, std::uint64_t chunk) {
  return {.dtype = plan.dtype,
          .entropy = wanted_stage(plan),
          .n_elems = plan.geometry.elems_of(chunk),
          .shape = plan.shape,
          .first_elem = chunk * plan.geometry.chunk_elems,
          .level = plan.level};
}

bool tries_other_codecs(const EncodePlan& plan) noexcept {
  return plan.tries_others && plan.choice.codec == CodecChoice::kAuto && !plan.has_step &&
         plan.level != EncodeLevel::kFast;
}

}  // namespace cfck::encode
