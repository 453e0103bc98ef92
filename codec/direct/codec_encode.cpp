#include <utility>

#include "base/cpu/float_environment.hpp"
#include "base/forks/forks.hpp"
#include "codec/direct/codec.hpp"
#include "codec/direct/plan/derived_bounds.hpp"
#include "codec/direct/plan/device_plan.hpp"
#include "codec/direct/plan/plan.hpp"
#include "codec/direct/plan/sample.hpp"

namespace cfck::codec {
namespace {

// A preamble of row steps must fit a frame, whose length has 32 bits.
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 30;

class PlannedTensor final : public LossyPlan {
 public:
  PlannedTensor(const LossyRecord& record, DerivedBounds bounds, DirectPlan plan)
      : dtype_(record.dtype),
        shape_(record.shape),
        bounds_(std::move(bounds)),
        plan_(std::move(plan)) {
    entropy_ = plan_.entropy;
    append_parameters(plan_.parameters,
                      plan_.place == ParameterPlace::kPreamble ? preamble_ : inline_bytes_);
  }

  Result<void> encode(std::uint64_t first_elem, ByteView values, Scratch& scratch,
                      MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) const override {
    const DefaultFloatEnvironment environment;
    DirectChunkInfo info;
    info.dtype = dtype_;
    info.entropy = entropy_;
    info.shape = shape_;
    info.first_elem = first_elem;
    info.n_elems = values.size() * 8 / bits_per_element(dtype_);
    DirectChunk chunk;
    std::swap(chunk.encoded, out);  // its memory is used again
    CFCK_TRY(encode_direct(info, plan_.parameters, plan_.place, bounds_.view(), values, scratch,
                           decoded, chunk));
    std::swap(chunk.encoded, out);
    errors = chunk.errors;
    return {};
  }

  std::optional<DeviceLossyEncodePlan> plan_for_device(std::uint64_t first_elem,
                                                       std::uint64_t n_elems) const override {
    if (entropy_ != EntropyId::kRans) {
      return std::nullopt;
    }
    std::optional<DeviceLossyEncodePlan> plan = direct_device_plan(
        {dtype_, shape_, first_elem, n_elems}, plan_.parameters, bounds_.view(), !plan_.is_short);
    if (plan) {
      plan->inline_bytes = inline_bytes_;
    }
    return plan;
  }

 private:
  const DType dtype_;
  const Shape shape_;
  const DerivedBounds bounds_;
  const DirectPlan plan_;
  std::vector<std::byte> inline_bytes_;  // parameters of a record of one chunk
};

Result<bool> keeps_near_zero(const LossyRecord& record, const ReadValues& read) {
  const bool is_asked = record.keeps_near_zero && record.bound.kind == BoundKind::kAbs;
  return is_asked ? is_near_zero(record, record.bound.value, read) : Result<bool>(false);
}

}  // namespace

bool DirectRequest::equals(const CodecRequest& other) const {
  const auto* const direct = dynamic_cast<const DirectRequest*>(&other);
  return direct != nullptr && *direct == *this;
}

SharedRequest DirectRequest::with_step(double step) const {
  auto request = std::make_shared<DirectRequest>();
  request->fixed_step = step;
  return request;
}

bool DirectEncoder::supports(DType dtype) const {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

Result<SharedRequest> DirectEncoder::request_of(const LossyOptions& asked) const {
  const bool is_asked =
      asked.is_named || (asked.is_open() && !asked.target && !asked.tensor.quality);
  return asked.bound && is_asked ? std::make_shared<const DirectRequest>() : SharedRequest();
}

std::optional<DeviceLossyRoom> DirectEncoder::room_on_device(const LossyRecord& record) const {
  return record.entropy == EntropyId::kRans ? direct_device_room(record) : std::nullopt;
}

WantedValues DirectEncoder::wanted_values(const LossyRecord& record) const {
  WantedValues wanted;
  const Result<DirectGeometry> geometry = direct_geometry(record.shape);
  if (geometry) {
    wanted.ranges = plan_sample_ranges(*geometry, record.level);
  }
  want_facts(record, wanted);
  return wanted;
}

Result<LossyDecision> DirectEncoder::plan(const LossyRecord& record, const ReadValues& read,
                                          Scratch& scratch) const {
  const DefaultFloatEnvironment environment;
  CFCK_TRY_ASSIGN(const bool near_zero, keeps_near_zero(record, read));
  if (near_zero) {
    return LossyDecision{nullptr, LosslessReason::kNearZero};
  }
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(record.shape));
  if (record.bound.per_row && geometry.rows > kMaxRows) {
    return unsupported("per_row supports at most 2^30 rows; leave it out");
  }
  CFCK_TRY_ASSIGN(DerivedBounds bounds, derive_bounds(record, read));
  if (bounds.is_zero()) {
    return LossyDecision{nullptr, LosslessReason::kConstant};
  }
  DirectRecord direct;
  direct.dtype = record.dtype;
  direct.entropy = record.entropy;
  direct.level = record.level;
  if (const auto* const request = dynamic_cast<const DirectRequest*>(record.request.get())) {
    direct.fixed_step = request->fixed_step;
  }
  direct.costs = record.costs;
  direct.is_forced = record.is_forced;
  direct.shape = record.shape;
  direct.chunk_elems = record.chunk_elems;
  CFCK_TRY_ASSIGN(DirectPlan plan, plan_direct(direct, bounds.view(), read, scratch));
  if (plan.prefers_lossless) {
    return LossyDecision{nullptr, LosslessReason::kNotSmaller};
  }
  return LossyDecision{std::make_unique<PlannedTensor>(record, std::move(bounds), std::move(plan)),
                       {}};
}

Result<AbsoluteBound> DirectEncoder::absolute_bound(const LossyRecord& record,
                                                    const ReadValues& read) const {
  const DefaultFloatEnvironment environment;
  CFCK_TRY_ASSIGN(const bool near_zero, keeps_near_zero(record, read));
  if (near_zero) {
    return AbsoluteBound{0, LosslessReason::kNearZero};
  }
  CFCK_TRY_ASSIGN(const DerivedBounds bounds, derive_bounds(record, read));
  if (bounds.is_zero()) {
    return AbsoluteBound{0, LosslessReason::kConstant};
  }
  return AbsoluteBound{bounds.bound};
}

CodecEncoders direct_encoders() noexcept {
  static constinit MadeOnce<const DirectEncoder> encoder;
  return {.lossy = &encoder.get([] { return DirectEncoder(); })};
}

}  // namespace cfck::codec
