#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/cpu/float_environment.hpp"
#include "base/forks/forks.hpp"
#include "spectral/codec.hpp"
#include "spectral/kernels/quantisers.hpp"
#include "spectral/plan/block_choice.hpp"
#include "spectral/plan/plan.hpp"
#include "spectral/plan/request.hpp"

namespace cfck::spectral {
namespace {

class PlannedTensor final : public LossyPlan {
 public:
  PlannedTensor(const LossyRecord& record, const SpectralRequest& request, SpectralPlan plan)
      : dtype_(record.dtype), shape_(record.shape), parameters_(std::move(plan.parameters)) {
    entropy_ = record.entropy;
    choice_.is_inline = plan.is_inline;
    choice_.lambda = static_cast<float>(request.lambda);
    choice_.max_abs_error = request.max_abs_error;
    moments_ = request.moments;
    choice_.moments = moments_.get();
    corrected_ = request.corrected;
    if (corrected_ != nullptr) {
      choice_.corrected = *corrected_;
    }
    if (!plan.is_inline) {
      append_spectral_parameters(parameters_, preamble_);
    }
  }

  Result<void> encode(std::uint64_t first_elem, ByteView values, Scratch& scratch,
                      MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) const override {
    const DefaultFloatEnvironment environment;
    SpectralChunkInfo info;
    info.dtype = dtype_;
    info.entropy = entropy_;
    info.shape = shape_;
    info.first_elem = first_elem;
    info.n_elems = values.size() * 8 / bits_per_element(dtype_);
    return encode_spectral(info, parameters_, choice_, values, scratch, decoded, out, errors);
  }

 private:
  const DType dtype_;
  const Shape shape_;
  const SpectralParameters parameters_;
  std::shared_ptr<const SecondMoments> moments_;
  std::shared_ptr<const std::vector<float>> corrected_;
  SpectralChoice choice_;
};

Result<void> check_request(const SpectralRequest& request, const Shape& shape) {
  const auto refuse = [](const char* message) { return invalid_argument(message); };
  if (!(request.step >= 0x1p-1000 && request.step <= 0x1p1000)) {
    return refuse("the step must be a number from 2^-1000 to 2^1000");
  }
  if (request.n_states != 1 && trellis_of(request.n_states) == nullptr) {
    return refuse("a trellis has 1, 4, 8 or 64 states");
  }
  if (!(request.lambda >= 0 && request.lambda <= 100)) {
    return refuse("lambda must be a number from 0 to 100");
  }
  if (request.max_abs_error &&
      !(*request.max_abs_error >= 0x1p-1000 && *request.max_abs_error <= 0x1p1000)) {
    return refuse("the error bound must be a number from 2^-1000 to 2^1000");
  }
  CFCK_TRY(check_block(request.block));
  CFCK_TRY_ASSIGN(const std::uint64_t n_values, n_elems(shape));
  if (request.corrected && request.corrected->size() != n_values) {
    return refuse("there must be as many corrected values as the tensor has");
  }
  return {};
}

}  // namespace

bool SpectralEncoder::supports(DType dtype) const {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

Result<LossyDecision> SpectralEncoder::plan(const LossyRecord& record, const ReadValues& read,
                                            Scratch& scratch) const {
  const DefaultFloatEnvironment environment;
  const SpectralRequest* const request = spectral_request(record);
  if (request == nullptr) {
    return invalid_argument("the spectral codec needs a step");
  }
  CFCK_TRY(check_request(*request, record.shape));
  try {
    CFCK_TRY_ASSIGN(SpectralPlan plan, plan_spectral(record, read, scratch));
    if (plan.prefers_lossless) {
      return LossyDecision{nullptr, LosslessReason::kNotSmaller};
    }
    return LossyDecision{std::make_unique<PlannedTensor>(record, *request, std::move(plan)), {}};
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory to plan a tensor", {}, {}};
  }
}

}  // namespace cfck::spectral

namespace cfck::codec {

CodecEncoders spectral_encoders() noexcept {
  static constinit MadeOnce<const spectral::SpectralEncoder> encoder;
  return {.lossy = &encoder.get([] { return spectral::SpectralEncoder(); })};
}

}  // namespace cfck::codec
