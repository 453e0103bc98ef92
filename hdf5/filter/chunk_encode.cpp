#include "hdf5/filter/chunk_encode.hpp"

#include <optional>
#include <utility>

#include "encode/rate/control.hpp"
#include "message/chunk_encode.hpp"

namespace cfck::hdf5 {
namespace {

// Finds the step, or that the chunk is smaller without loss. A chunk whose values cannot be had at
// a rate, such as one of nothing but NaNs, is stored without loss: HDF5 writes chunks when files
// are closed, where an error would lose what was written before.
Result<void> find_step(encode::EncodePlan& plan, const encode::FrameCosts& costs,
                       const FilterRequest& request) {
  encode::RateControl control(costs, 1, [](const StepSearch&) -> Result<void> { return {}; });
  const auto decisions = control.decide(plan.choice.target, {&plan, 1});
  if (!decisions && decisions.error().code != ErrorCode::kInvalidArgument) {
    return decisions.error();
  }
  if (decisions && decisions->front().request) {
    plan.choice.request = decisions->front().request;
    plan.has_step = true;
  } else {
    plan.choice = without_loss(request);
  }
  return {};
}

// The finest rung with which a chunk takes no more bytes than its rate has. Coarser rungs take no
// more than finer ones, so halving finds it.
class RungSearch {
 public:
  RungSearch(const FilterRequest& request, const ChunkValues& values, encode::EncodePlan& plan,
             ByteView bytes, std::uint64_t header_bytes, encode::WorkerMemory& memory)
      : request_(request),
        values_(values),
        plan_(plan),
        bytes_(bytes),
        header_bytes_(header_bytes),
        memory_(memory) {}

  Result<encode::SingleChoice> find(const RungsToTry& rungs) {
    CFCK_TRY_ASSIGN(encode::SingleChoice lossless, encode_now());
    if (fits(lossless) || rungs.finest > rungs.coarsest) {
      return lossless;
    }
    int finest = rungs.finest;
    int coarsest = rungs.coarsest;
    std::optional<int> last;
    encode::SingleChoice chosen;
    while (finest < coarsest) {
      const int middle = finest + (coarsest - finest) / 2;
      CFCK_TRY_ASSIGN(chosen, encode_with(middle));
      last = middle;
      (fits(chosen) ? coarsest : finest) = fits(chosen) ? middle : middle + 1;
    }
    if (last != finest) {
      CFCK_TRY_ASSIGN(chosen, encode_with(finest));
    }
    if (fits(chosen) || rungs.is_bounded) {
      return chosen;
    }
    plan_.choice = without_loss(request_);
    return encode_now();
  }

 private:
  Result<encode::SingleChoice> encode_with(int number) {
    CFCK_TRY_ASSIGN(ChunkChoice choice, choose_rung(request_, values_, number));
    plan_.choice = std::move(choice.tensor);
    return encode_now();
  }
  Result<encode::SingleChoice> encode_now() {
    return message::encode_chunk(plan_, header_bytes_, bytes_, memory_);
  }
  // Requires: `choice` is what was encoded last.
  bool fits(const encode::SingleChoice& choice) const {
    const std::size_t payload_bytes =
        choice.candidate.codec == CodecId::kRaw ? bytes_.size() : memory_.encoded.payload.size();
    return static_cast<double>(header_bytes_ + payload_bytes) * 8 <=
           request_.value * static_cast<double>(plan_.geometry.n_elems);
  }

  const FilterRequest& request_;
  const ChunkValues& values_;
  encode::EncodePlan& plan_;
  const ByteView bytes_;
  const std::uint64_t header_bytes_;
  encode::WorkerMemory& memory_;
};

}  // namespace

Result<encode::SingleChoice> encode_values(const FilterRequest& request, const ChunkValues& values,
                                           ChunkChoice choice, ByteView bytes,
                                           std::uint64_t header_bytes,
                                           encode::WorkerMemory& memory) {
  const MemorySource source(bytes);
  encode::EncodePlan plan;
  message::plan_values({.dtype = values.dtype,
                        .shape = values.shape,
                        .source = source,
                        .entropy = request.entropy,
                        .level = request.level},
                       plan);
  plan.choice = std::move(choice.tensor);
  if (choice.rungs) {
    return RungSearch(request, values, plan, bytes, header_bytes, memory).find(*choice.rungs);
  }
  if (plan.choice.needs_step()) {
    CFCK_TRY(find_step(plan, message::costs_of_chunks(header_bytes), request));
  }
  return message::encode_chunk(plan, header_bytes, bytes, memory);
}

}  // namespace cfck::hdf5
