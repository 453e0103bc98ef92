#include "encode/trial/against_base.hpp"

#include <algorithm>
#include <utility>

#include "cfck/base.hpp"
#include "encode/trial/trial.hpp"

namespace cfck::encode {
namespace {

// Values of a chunk from which an estimate is made; fewer where it need not be as good.
constexpr std::uint64_t kSampleElems = 4096;
constexpr std::uint64_t kSmallSampleElems = 512;
// Bytes of a payload that do not grow with the values.
constexpr std::uint64_t kFixedBytes = 128;

}  // namespace

std::optional<Candidate> base_candidate(const EncodePlan& plan) {
  if (plan.base_tensor == nullptr || plan.choice.codec != CodecChoice::kAuto ||
      plan.choice.is_lossy()) {
    return std::nullopt;
  }
  for (const CodecId id : codec::codec_ids()) {
    const codec::Encoder* const encoder = codec::find_encoder(id);
    if (encoder != nullptr && encoder->needs_base()) {
      return Candidate{id, encoder->entropy_for(plan.dtype, plan.entropy), plan.level};
    }
  }
  return std::nullopt;
}

bool needs_base(const Candidate& candidate) noexcept {
  const codec::Encoder* const encoder =
      candidate.lossy == nullptr ? codec::find_encoder(candidate.codec) : nullptr;
  return encoder != nullptr && encoder->needs_base();
}

Result<ByteView> base_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory) {
  const ByteView in_place = plan.base->in_place(*plan.base_tensor);
  if (!in_place.empty()) {
    return in_place.subspan(offset_bytes, n_bytes);
  }
  memory.base.resize(n_bytes);
  CFCK_TRY(naming(plan.base->read(*plan.base_tensor, offset_bytes, memory.base), plan));
  return ByteView(memory.base);
}

Result<std::uint64_t> estimate_lossless(const EncodePlan& plan, std::uint64_t chunk,
                                        ByteView values, std::uint64_t difference_bytes,
                                        WorkerMemory& memory) {
  const std::uint64_t n_elems = plan.geometry.elems_of(chunk);
  const std::uint64_t n_sampled = std::min(
      are_few(difference_bytes, values.size()) ? kSmallSampleElems : kSampleElems, n_elems);
  const ByteView sample = values.first(n_sampled * bits_per_element(plan.dtype) / 8);
  const Candidate lossless = lossless_candidate(
      plan, codec::find_encoder(CodecId::kLossless)->entropy_for(plan.dtype, plan.entropy));
  std::swap(memory.encoded, memory.other);
  const Result<ChunkTrial> trial =
      encode_values(plan, lossless, chunk * plan.geometry.chunk_elems, n_sampled, sample, memory);
  std::swap(memory.encoded, memory.other);
  CFCK_TRY(trial);
  const std::uint64_t n_bytes = trial->payload_bytes;
  return n_bytes <= kFixedBytes ? n_bytes
                                : kFixedBytes + (n_bytes - kFixedBytes) * n_elems / n_sampled;
}

}  // namespace cfck::encode
