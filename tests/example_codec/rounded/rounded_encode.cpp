#include <algorithm>
#include <bit>
#include <cmath>
#include <new>

#include "base/bytes.hpp"
#include "base/cpu/float_environment.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "tests/example_codec/rounded/rounded_codec.hpp"

namespace cfck::codec {
namespace {

float value_at(ByteView values, std::size_t i) {
  return std::bit_cast<float>(load<std::uint32_t>(values.data() + i * sizeof(float)));
}

// Writes indices and decoded values. Returns false where a value has no index.
bool round_values(ByteView values, double step, MutableBytes planes, MutableBytes decoded) {
  const std::size_t n = values.size() / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) {
    const double nearest = std::nearbyint(value_at(values, i) / step);
    if (!(std::fabs(nearest) <= 32767)) {
      return false;
    }
    const auto index = static_cast<std::int16_t>(nearest);  // which has one zero only
    const auto bits = static_cast<std::uint16_t>(index);
    planes[i] = static_cast<std::byte>(bits & 0xff);
    planes[n + i] = static_cast<std::byte>(bits >> 8);
    const auto value = static_cast<float>(index * step);
    store(decoded.data() + i * sizeof(float), std::bit_cast<std::uint32_t>(value));
  }
  return true;
}

ErrorTotals errors_of(ByteView values, ByteView decoded) {
  ErrorTotals errors;
  for (std::size_t i = 0; i < values.size() / sizeof(float); ++i) {
    if (!std::isfinite(value_at(values, i))) {
      continue;
    }
    const double error = std::fabs(double{value_at(values, i)} - value_at(decoded, i));
    errors.max_error = std::max(errors.max_error, error);
    errors.sum_of_squares += error * error;
    errors.n_finite += 1;
  }
  return errors;
}

class RoundedPlan final : public LossyPlan {
 public:
  explicit RoundedPlan(double step) : step_(step) {}

  Result<void> encode(std::uint64_t /*first_elem*/, ByteView values, Scratch& scratch,
                      MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) const override {
    const DefaultFloatEnvironment environment;
    RoundedScratch& own = scratch.part<RoundedScratch>();
    own.planes.resize(values.size() / 2);
    out.payload.clear();
    if (round_values(values, step_, own.planes, decoded)) {
      CFCK_TRY(compress_bytes(own.planes, scratch, own.frame));
      append_indices(own, out.payload);
    }
    if (out.payload.empty() || out.payload.size() > values.size()) {
      out.payload.assign(1, static_cast<std::byte>(RoundedMode::kStored));
      out.payload.insert(out.payload.end(), values.begin(), values.end());
      std::copy(values.begin(), values.end(), decoded.begin());
    }
    out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
    errors = errors_of(values, decoded);
    return {};
  }

 private:
  // Plain where a frame saves less than an eighth: it is read faster, and a device decodes it.
  void append_indices(const RoundedScratch& own, std::vector<std::byte>& payload) const {
    const bool is_plain = own.frame.size() > own.planes.size() - own.planes.size() / 8;
    const std::vector<std::byte>& section = is_plain ? own.planes : own.frame;
    payload.resize(1 + sizeof(double));
    payload[0] = static_cast<std::byte>(is_plain ? RoundedMode::kPlain : RoundedMode::kFrame);
    store(payload.data() + 1, std::bit_cast<std::uint64_t>(step_));
    if (!is_plain) {
      append_varint(static_cast<std::uint32_t>(section.size()), payload);
    }
    payload.insert(payload.end(), section.begin(), section.end());
  }

  const double step_;
};

}  // namespace

bool RoundedRequest::equals(const CodecRequest& other) const {
  const auto* const rounded = dynamic_cast<const RoundedRequest*>(&other);
  return rounded != nullptr && *rounded == *this;
}

std::optional<OpenStep> RoundedRequest::open_step() const {
  return step > 0 ? std::nullopt : std::optional(OpenStep());
}

SharedRequest RoundedRequest::with_step(double found) const {
  auto request = std::make_shared<RoundedRequest>();
  request->step = found;
  return request;
}

Result<SharedRequest> RoundedEncoder::request_of(const LossyOptions& asked) const {
  if (!asked.is_named) {
    return SharedRequest();
  }
  if (!asked.target || asked.bound) {
    return invalid_argument("codec rounded needs a target, and takes no maximum error");
  }
  return SharedRequest(std::make_shared<RoundedRequest>());
}

Result<LossyDecision> RoundedEncoder::plan(const LossyRecord& record, const ReadValues& /*read*/,
                                           Scratch& /*scratch*/) const {
  const auto* const request = dynamic_cast<const RoundedRequest*>(record.request.get());
  if (request == nullptr || !(request->step > 0) || !std::isfinite(request->step)) {
    return invalid_argument("codec rounded needs a step");
  }
  try {
    return LossyDecision{std::make_unique<RoundedPlan>(request->step), {}};
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory to plan a tensor", {}, {}};
  }
}

CodecEncoders rounded_encoders() noexcept {
  static const RoundedEncoder encoder;
  return {.lossy = &encoder};
}

}  // namespace cfck::codec
