#include "codec/direct/plan.hpp"

#include <algorithm>

#include "codec/direct/prediction.hpp"
#include "codec/direct/prediction_fit.hpp"
#include "codec/direct/scale_field_fit.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::uint64_t kSampledChunks = 4;
// A scale field needs all codes at once, and pays little on large tensors.
inline constexpr std::uint64_t kMaxFieldValues = std::uint64_t{1} << 22;

class Planner {
 public:
  Planner(const DirectRecord& record, const DirectGeometry& geometry, const DirectBounds& bounds,
          const ReadValues& read, Scratch& scratch)
      : record_(record),
        geometry_(geometry),
        bounds_(bounds),
        read_(read),
        scratch_(scratch),
        n_values_(geometry.n_values()),
        n_chunks_(ceil_div(n_values_, record.chunk_elems)) {}

  Result<DirectPlan> plan() {
    best_.place = n_chunks_ == 1 ? ParameterPlace::kInline : ParameterPlace::kPreamble;
    CFCK_TRY(set_steps());
    CFCK_TRY_ASSIGN(best_bytes_, cost(best_.parameters));
    if (record_.dtype == DType::kF16 || record_.dtype == DType::kBF16) {
      CFCK_TRY(try_parameters(with_powers_of_two()));
    }
    CFCK_TRY(try_models());
    CFCK_TRY_ASSIGN(const std::uint64_t lossless_bytes, lossless_cost());
    best_.prefers_lossless = lossless_bytes <= best_bytes_;
    return std::move(best_);
  }

 private:
  Result<void> set_steps() {
    if (bounds_.rows.empty()) {
      CFCK_TRY_ASSIGN(best_.parameters.step, step_of(bounds_.bound));
      return {};
    }
    for (const double bound : bounds_.rows) {
      CFCK_TRY_ASSIGN(const std::uint16_t step, row_step_of(bound));
      best_.parameters.row_steps.push_back(step);
    }
    return {};
  }

  DirectParameters with_powers_of_two() const {
    DirectParameters parameters = best_.parameters;
    parameters.step = power_of_two_below(parameters.step);
    for (std::uint16_t& step : parameters.row_steps) {
      step = step & 0x7f80;
    }
    return parameters;
  }

  // Prediction, a field, and both.
  Result<void> try_models() {
    const DirectParameters plain = best_.parameters;
    std::vector<std::int32_t> codes;
    const bool whole = n_values_ <= kMaxFieldValues;
    DirectParameters predicted = plain;
    if (geometry_.taps > 1) {
      CFCK_TRY_ASSIGN(predicted.coefficients, fit_prediction(plain, whole ? &codes : nullptr));
      if (!predicted.coefficients.empty()) {
        CFCK_TRY(try_parameters(predicted));
      }
    } else if (whole && geometry_.rows > 1) {
      CFCK_TRY(each_chunk(
          1, [&](std::uint64_t first, ByteView values) { quantise(plain, first, values, codes); }));
    }
    if (codes.empty() || geometry_.rows == 1) {
      return {};
    }
    DirectParameters fielded = plain;
    fielded.field = fit_scale_field(geometry_, codes);
    CFCK_TRY(try_parameters(fielded));
    if (!predicted.coefficients.empty()) {
      predict_codes(geometry_, predicted.coefficients, 0, codes);
      predicted.field = fit_scale_field(geometry_, codes);
      CFCK_TRY(try_parameters(predicted));
    }
    return {};
  }

  // `codes`, if not null, gets the codes of all values.
  Result<std::vector<std::int16_t>> fit_prediction(const DirectParameters& parameters,
                                                   std::vector<std::int32_t>* codes) {
    PredictionFit fit(geometry_.taps);
    CFCK_TRY(each_chunk(codes == nullptr ? stride() : 1, [&](std::uint64_t first, ByteView values) {
      std::vector<std::int32_t> sampled;
      std::vector<std::int32_t>& to = codes == nullptr ? sampled : *codes;
      const std::size_t before = to.size();
      quantise(parameters, first, values, to);
      fit.add(first, std::span<const std::int32_t>(to).subspan(before));
    }));
    return fit.solve();
  }

  void quantise(const DirectParameters& parameters, std::uint64_t first, ByteView values,
                std::vector<std::int32_t>& codes) {
    const std::size_t n = values.size() * 8 / bits_per_element(record_.dtype);
    const ValueSteps steps = value_steps(geometry_, parameters, bounds_, first);
    codes.resize(codes.size() + n);
    decoded_.resize(values.size());
    direct_kernels().quantise(record_.dtype, values.data(), n, steps,
                              codes.data() + codes.size() - n, decoded_.data());
  }

  std::uint64_t stride() const { return ceil_div(n_chunks_, kSampledChunks); }

  template <class Action>
  Result<void> each_chunk(std::uint64_t step, Action&& action) {
    for (std::uint64_t chunk = 0; chunk < n_chunks_; chunk += step) {
      const std::uint64_t first = chunk * record_.chunk_elems;
      const std::uint64_t n = std::min(record_.chunk_elems, n_values_ - first);
      CFCK_TRY_ASSIGN(const ByteView values, read_(first, n, room_));
      action(first, values);
    }
    return {};
  }

  // Bytes of the sampled chunks, scaled to the record, and of the parameters.
  Result<std::uint64_t> cost(const DirectParameters& parameters) {
    std::uint64_t bytes = 0;
    std::uint64_t n_sampled = 0;
    Result<void> done;
    CFCK_TRY(each_chunk(stride(), [&](std::uint64_t first, ByteView values) {
      const DirectChunkInfo info = chunk_info(first, values);
      decoded_.resize(values.size());
      if (done) {
        done = encode_direct(info, parameters, best_.place, bounds_, values, scratch_, decoded_,
                             chunk_);
      }
      bytes += chunk_.encoded.payload.size();
      n_sampled += info.n_elems;
    }));
    CFCK_TRY(std::move(done));
    if (best_.place == ParameterPlace::kInline) {
      return bytes;
    }
    std::vector<std::byte> preamble;
    append_parameters(parameters, preamble);
    return scaled(bytes, n_sampled) + preamble.size();
  }

  Result<std::uint64_t> lossless_cost() {
    std::uint64_t bytes = 0;
    std::uint64_t n_sampled = 0;
    Result<void> done;
    CFCK_TRY(each_chunk(stride(), [&](std::uint64_t first, ByteView values) {
      const DirectChunkInfo info = chunk_info(first, values);
      if (done) {
        done = LosslessEncoder().encode(lossless_info(info), values, scratch_, chunk_.encoded);
      }
      bytes += chunk_.encoded.payload.size();
      n_sampled += info.n_elems;
    }));
    CFCK_TRY(std::move(done));
    return scaled(bytes, n_sampled);
  }

  DirectChunkInfo chunk_info(std::uint64_t first, ByteView values) const {
    return {record_.dtype,
            record_.entropy,
            record_.shape,
            first,
            values.size() * 8 / bits_per_element(record_.dtype),
            nullptr};
  }

  // bytes * n_values / n_sampled without overflow: a sample has at most 2^28 bytes.
  std::uint64_t scaled(std::uint64_t bytes, std::uint64_t n_sampled) const {
    return n_sampled == n_values_
               ? bytes
               : n_values_ / n_sampled * bytes + n_values_ % n_sampled * bytes / n_sampled;
  }

  Result<void> try_parameters(DirectParameters parameters) {
    CFCK_TRY_ASSIGN(const std::uint64_t bytes, cost(parameters));
    if (bytes < best_bytes_) {
      best_bytes_ = bytes;
      best_.parameters = std::move(parameters);
    }
    return {};
  }

  const DirectRecord& record_;
  const DirectGeometry& geometry_;
  const DirectBounds& bounds_;
  const ReadValues& read_;
  Scratch& scratch_;
  const std::uint64_t n_values_;
  const std::uint64_t n_chunks_;
  DirectPlan best_;
  std::uint64_t best_bytes_ = 0;
  DirectChunk chunk_;
  std::vector<std::byte> room_;
  std::vector<std::byte> decoded_;
};

}  // namespace

Result<DirectPlan> plan_direct(const DirectRecord& record, const DirectBounds& bounds,
                               const ReadValues& read, Scratch& scratch) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(record.shape));
  if (geometry.n_values() == 0 || record.chunk_elems == 0 ||
      (!bounds.rows.empty() && bounds.rows.size() != geometry.rows)) {
    return Error{
        ErrorCode::kInvalidArgument, "nothing to plan, or not a bound for each row", {}, {}};
  }
  return Planner(record, geometry, bounds, read, scratch).plan();
}

}  // namespace cfck::codec
