#include "codec/direct/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "codec/common/lossless_fallback.hpp"
#include "codec/direct/chunk/prediction.hpp"
#include "codec/direct/plan/index_cost.hpp"
#include "codec/direct/plan/prediction_fit.hpp"
#include "codec/direct/plan/sample.hpp"
#include "codec/indices/scale_field_fit.hpp"

namespace cfck::codec {
namespace {

// Without kernels a field must save one byte in this many: it costs time.
inline constexpr std::uint64_t kFieldShare = 100;
// Models whose estimates are within one part in this many of the best are compared by bytes; plain
// coding, which has other trees and bins, if it is within one part in kSureShare.
inline constexpr std::uint64_t kEstimateShare = 32;
inline constexpr std::uint64_t kSureShare = 16;
// Up to this many bytes both codecs are always tried.
inline constexpr std::size_t kSmallSample = 16384;

// True if the distribution of the values is such that the lossless codec could win far below the
// size of the values: a sample of them shows each four times.
bool repeats_values(ByteView values, std::size_t value_bytes) {
  constexpr std::size_t kMaxValues = 256;
  const std::size_t n_values = values.size() / value_bytes;
  const std::size_t n = std::min(kMaxValues, n_values);
  std::array<std::uint64_t, kMaxValues> sample;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, values.data() + i * n_values / n * value_bytes, value_bytes);
    sample[i] = value;
  }
  const auto end = sample.begin() + static_cast<std::ptrdiff_t>(n);
  std::sort(sample.begin(), end);
  const auto n_distinct = std::unique(sample.begin(), end) - sample.begin();
  return 4 * static_cast<std::size_t>(n_distinct) <= n;
}

// An upper bound for the saving by the spread of a field's columns, and of its rows where groups
// have several, in 1/256 bit of each value: 256 times 0.03 times the variance of the quarter-log2
// steps. For a log-normal spread the factor is ln(2) / 32, 0.022.
std::uint64_t gain_of_field(const DirectGeometry& geometry, const ScaleField& field) {
  const auto variance_256 = [](const std::vector<std::int16_t>& quarters) {
    std::int64_t sum = 0;
    std::int64_t squares = 0;
    for (const std::int16_t number : quarters) {
      sum += number;
      squares += std::int64_t{number} * number;
    }
    const auto n = static_cast<std::int64_t>(quarters.size());
    return static_cast<std::uint64_t>((squares * n - sum * sum) / n * 256 / n);
  };
  const bool has_row_groups = geometry.row_values() >= 2 * kGroupSize;
  return (variance_256(field.columns) + (has_row_groups ? 0 : variance_256(field.rows))) * 3 / 100;
}

// Trials of the sample leave their memory here for the next ones.
struct TrialMemory {
  DirectChunk chunk;
  std::vector<std::byte> decoded;
  EncodedChunk lossless;
};

class Planner {
 public:
  Planner(const DirectRecord& record, const DirectGeometry& geometry, const DirectBounds& bounds,
          const ReadValues& read, Scratch& scratch)
      : record_(record),
        geometry_(geometry),
        bounds_(bounds),
        read_(read),
        scratch_(scratch),
        memory_(scratch.part<TrialMemory>()),
        value_bytes_(bits_per_element(record.dtype) / 8),
        n_values_(geometry.n_values()),
        n_chunks_(ceil_div(n_values_, record.chunk_elems)) {}

  Result<DirectPlan> plan() {
    best_.entropy = record_.entropy;
    best_.place = n_chunks_ == 1 ? ParameterPlace::kInline : ParameterPlace::kPreamble;
    CFCK_TRY(set_steps());
    const bool is_short = record_.dtype == DType::kF16 || record_.dtype == DType::kBF16;
    if (record_.is_forced && record_.level == EncodeLevel::kFast && !is_short) {
      return std::move(best_);  // there is nothing to choose
    }
    CFCK_TRY_ASSIGN(sample_, take_plan_sample(record_, geometry_, bounds_, read_));
    if (is_short && record_.fixed_step == 0) {
      CFCK_TRY(try_powers_of_two());
    }
    Candidate chosen{sample_.parameters(best_.parameters), {}};
    std::uint64_t n_exact = 0;
    chosen.indices = quantised(sample_.geometry, chosen.parameters, sample_.bounds(bounds_), 0,
                               sample_.values, &n_exact);
    chosen.cost = grouped_cost(indices_of(chosen)) + cost_of_parameters(chosen.parameters);
    CFCK_TRY(try_models(chosen));
    CFCK_TRY(try_zstd(chosen));
    best_.is_short = takes_little(chosen, n_exact);
    if (!record_.is_forced) {
      CFCK_TRY(try_lossless(chosen));
    }
    return std::move(best_);
  }

 private:
  // A candidate for the coding of the sample.
  struct Candidate {
    DirectParameters parameters;
    std::vector<std::int32_t> indices;  // or residuals; zeros up to whole groups
    std::uint64_t cost = 0;             // estimated, 1/256 bit
    std::uint64_t bytes = 0;            // of the record; 0 if unknown
  };

  Result<void> set_steps() {
    if (bounds_.rows.empty()) {
      CFCK_TRY_ASSIGN(best_.parameters.step, step_of(bounds_.bound));
      if (record_.fixed_step > 0) {
        best_.parameters.step = record_.fixed_step;
      }
      return {};
    }
    for (const double bound : bounds_.rows) {
      CFCK_TRY_ASSIGN(const std::uint16_t step, row_step_of(bound));
      best_.parameters.row_steps.push_back(step);
    }
    return {};
  }

  Result<void> try_powers_of_two() {
    Candidate asked{sample_.parameters(best_.parameters), {}};
    CFCK_TRY(weigh(asked));
    DirectParameters parameters = best_.parameters;
    parameters.step = power_of_two_below(parameters.step);
    for (std::uint16_t& step : parameters.row_steps) {
      step = step & 0x7f80;
    }
    Candidate other{sample_.parameters(parameters), {}};
    CFCK_TRY(weigh(other));
    if (other.bytes < asked.bytes) {
      best_.parameters = std::move(parameters);
    }
    return {};
  }

  // Tries prediction, a field, and both; takes the one that is estimated best, if it is.
  Result<void> try_models(Candidate& chosen) {
    if (record_.level == EncodeLevel::kFast) {
      return {};
    }
    const bool by_bytes = record_.level == EncodeLevel::kArchive;
    std::vector<Candidate> models;
    if (geometry_.kernel_size > 1) {
      PredictionFit fit(geometry_.kernel_size);
      fit.add(0, indices_of(chosen));
      Candidate predicted{chosen.parameters, {}};
      predicted.parameters.coefficients = fit.solve();
      if (!predicted.parameters.coefficients.empty()) {
        predicted.indices = chosen.indices;
        predict_indices(sample_.geometry, predicted.parameters.coefficients, 0,
                        {predicted.indices.data(), sample_.n_values()});
        predicted.cost =
            grouped_cost(indices_of(predicted)) + cost_of_parameters(predicted.parameters);
        models.push_back(std::move(predicted));
      }
    }
    if (may_have_field() && field_may_pay(chosen)) {
      const std::size_t n_models = models.size();
      models.push_back(fielded(chosen));
      for (std::size_t i = 0; i < n_models; ++i) {
        models.push_back(fielded(models[i]));
      }
    }
    CFCK_TRY_ASSIGN(Candidate* const best,
                    by_bytes ? smallest_of(models) : best_of(models, chosen.cost));
    if (best == nullptr) {
      return {};
    }
    const bool has_field = !best->parameters.field.empty();
    if (by_bytes || best->cost + best->cost / kSureShare >= chosen.cost) {
      CFCK_TRY(weigh(chosen));
      CFCK_TRY(weigh(*best));
      const std::uint64_t min_gain =
          has_field && geometry_.kernel_size == 1 && !by_bytes ? chosen.bytes / kFieldShare : 0;
      if (best->bytes + min_gain >= chosen.bytes) {
        return {};
      }
    }
    chosen = std::move(*best);
    best_.parameters.coefficients = chosen.parameters.coefficients;
    if (has_field) {
      CFCK_TRY(set_field(chosen));
    }
    return {};
  }

  // Returns the candidate of fewest bytes among those that are estimated to take less than `limit`,
  // and not much more than the best; nullptr if there is none.
  Result<Candidate*> best_of(std::vector<Candidate>& candidates, std::uint64_t limit) {
    std::uint64_t min = limit;
    for (const Candidate& candidate : candidates) {
      min = std::min(min, candidate.cost);
    }
    std::vector<Candidate*> near;
    for (Candidate& candidate : candidates) {
      if (candidate.cost < limit && candidate.cost <= min + min / kEstimateShare) {
        near.push_back(&candidate);
      }
    }
    return near.size() == 1 ? near[0] : smallest_of(near);
  }

  Result<Candidate*> smallest_of(std::vector<Candidate>& candidates) {
    std::vector<Candidate*> all;
    for (Candidate& candidate : candidates) {
      all.push_back(&candidate);
    }
    return smallest_of(all);
  }

  // Returns the first of fewest bytes; nullptr if there is none.
  Result<Candidate*> smallest_of(const std::vector<Candidate*>& candidates) {
    Candidate* best = nullptr;
    for (Candidate* const candidate : candidates) {
      CFCK_TRY(weigh(*candidate));
      if (best == nullptr || candidate->bytes < best->bytes) {
        best = candidate;
      }
    }
    return best;
  }

  bool may_have_field() const {
    return may_fit_field(geometry_, record_.level) && sample_.has_whole_rows;
  }

  // One alternation shows how much the scales of rows and columns differ.
  bool field_may_pay(const Candidate& plain) const {
    if (geometry_.kernel_size > 1 || record_.level == EncodeLevel::kArchive) {
      return true;
    }
    const ScaleField rough = fit_scale_field(sample_.geometry, indices_of(plain), 1);
    return gain_of_field(sample_.geometry, rough) * sample_.n_values() >= plain.cost / kFieldShare;
  }

  Candidate fielded(const Candidate& of) const {
    Candidate candidate{of.parameters, of.indices};
    candidate.parameters.field = fit_scale_field(sample_.geometry, indices_of(candidate));
    candidate.cost =
        fielded_cost(sample_.geometry, candidate.parameters.field, indices_of(candidate)) +
        cost_of_parameters(candidate.parameters);
    return candidate;
  }

  // Fits the field of the record.
  Result<void> set_field(const Candidate& chosen) {
    if (sample_.is_whole) {
      best_.parameters.field = chosen.parameters.field;
      return {};
    }
    std::vector<std::int32_t> indices;
    indices.reserve(n_values_ + record_.chunk_elems);
    for (std::uint64_t first = 0; first < n_values_; first += record_.chunk_elems) {
      const std::uint64_t n = std::min(record_.chunk_elems, n_values_ - first);
      CFCK_TRY_ASSIGN(const ByteView values, read_(first, n, workspace_));
      std::vector<std::int32_t> some =
          quantised(geometry_, best_.parameters, bounds_, first, values, nullptr);
      indices.insert(indices.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
    }
    if (!best_.parameters.coefficients.empty()) {
      predict_indices(geometry_, best_.parameters.coefficients, 0, indices);
    }
    best_.parameters.field = fit_scale_field(geometry_, indices);
    return {};
  }

  // Where values take less than two bits, the states of the lanes may cost more than rans
  // saves.
  Result<void> try_zstd(Candidate& chosen) {
    if (record_.entropy != EntropyId::kRans || record_.level != EncodeLevel::kDefault ||
        chosen.cost >= 2 * 256 * sample_.n_values()) {
      return {};
    }
    CFCK_TRY(weigh(chosen));
    Candidate other{chosen.parameters, {}};
    best_.entropy = EntropyId::kZstd;
    CFCK_TRY(weigh(other));
    if (other.bytes < chosen.bytes) {
      chosen.bytes = other.bytes;
    } else {
      best_.entropy = record_.entropy;
    }
    return {};
  }

  // Whether the sample is estimated to take far less than half of its values.
  bool takes_little(const Candidate& chosen, std::uint64_t n_exact) const {
    const std::uint64_t estimate =
        chosen.cost / (8 * 256) + n_exact * (value_bytes_ + 2) + kSmallSample / 8;
    return estimate < sample_.values.size() * 2 / 5;
  }

  // Lossless may take less where few values differ, or where direct saves little.
  Result<void> try_lossless(Candidate& chosen) {
    if (best_.is_short && sample_.values.size() > kSmallSample &&
        !repeats_values(sample_.values, value_bytes_)) {
      return {};
    }
    CFCK_TRY(weigh(chosen));
    EncodedChunk& lossless = memory_.lossless;
    CFCK_TRY(encode_lossless(lossless_info(sample_info()), sample_.values, scratch_, lossless));
    const std::uint64_t entries =
        record_.costs.lossy_entries(best_.place == ParameterPlace::kPreamble);
    best_.prefers_lossless = scaled(lossless.payload.size()) <= chosen.bytes + entries;
    return {};
  }

  // Measures the exact bytes of a candidate.
  Result<void> weigh(Candidate& candidate) {
    if (candidate.bytes != 0) {
      return {};
    }
    const bool is_record = sample_.is_whole && best_.place == ParameterPlace::kInline;
    DirectChunk& chunk = memory_.chunk;
    std::vector<std::byte>& decoded = memory_.decoded;
    decoded.resize(sample_.values.size());
    CFCK_TRY(encode_direct(sample_info(), candidate.parameters,
                           is_record ? ParameterPlace::kInline : ParameterPlace::kPreamble,
                           sample_.bounds(bounds_), sample_.values, scratch_, decoded, chunk));
    candidate.bytes = scaled(chunk.encoded.payload.size());
    candidate.bytes += is_record ? 0 : parameter_bytes(candidate.parameters);
    return {};
  }

  // Returns the part of the cost of parameters that falls on the sample.
  std::uint64_t cost_of_parameters(const DirectParameters& parameters) const {
    return 8 * 256 * parameter_bytes(parameters) * sample_.n_values() / n_values_;
  }

  // Returns the bytes of the record's parameters, which have more rows than those of the sample.
  std::uint64_t parameter_bytes(const DirectParameters& parameters) const {
    std::vector<std::byte> packed;
    append_parameters(parameters, packed);
    const std::uint64_t more_rows = geometry_.rows - sample_.geometry.rows;
    std::uint64_t row_bits = parameters.row_steps.empty() ? 0 : 16;
    if (!parameters.field.empty()) {
      const auto [low, high] =
          std::minmax_element(parameters.field.rows.begin(), parameters.field.rows.end());
      row_bits += static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(*high - *low)));
    }
    return packed.size() + more_rows * row_bits / 8;
  }

  std::vector<std::int32_t> quantised(const DirectGeometry& geometry,
                                      const DirectParameters& parameters,
                                      const DirectBounds& bounds, std::uint64_t first,
                                      ByteView values, std::uint64_t* n_exact) {
    const std::size_t n = values.size() / value_bytes_;
    std::vector<std::int32_t> indices(ceil_div(n, kGroupSize) * kGroupSize);
    decoded_.resize(values.size());
    const QuantisedTotals totals = direct_kernels().quantise(
        record_.dtype, values.data(), n, value_steps(geometry, parameters, bounds, first),
        indices.data(), decoded_.data());
    if (n_exact != nullptr) {
      *n_exact = totals.errors.n_exact;
    }
    return indices;
  }

  std::span<const std::int32_t> indices_of(const Candidate& candidate) const {
    return {candidate.indices.data(), sample_.n_values()};
  }

  DirectChunkInfo sample_info() const {
    return {record_.dtype, best_.entropy, sample_.shape, 0, sample_.n_values(), nullptr};
  }

  // Scales bytes of the sample to the record. No overflow: a sample has at most 2^21 bytes.
  std::uint64_t scaled(std::uint64_t bytes) const {
    const std::uint64_t n_sampled = sample_.n_values();
    return n_values_ / n_sampled * bytes + n_values_ % n_sampled * bytes / n_sampled;
  }

  const DirectRecord& record_;
  const DirectGeometry& geometry_;
  const DirectBounds& bounds_;
  const ReadValues& read_;
  Scratch& scratch_;
  TrialMemory& memory_;
  const std::size_t value_bytes_;
  const std::uint64_t n_values_;
  const std::uint64_t n_chunks_;
  DirectPlan best_;
  PlanSample sample_;
  std::vector<std::byte> workspace_;
  std::vector<std::byte> decoded_;
};

}  // namespace

Result<DirectPlan> plan_direct(const DirectRecord& record, const DirectBounds& bounds,
                               const ReadValues& read, Scratch& scratch) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(record.shape));
  if (geometry.n_values() == 0 || record.chunk_elems == 0 ||
      (!bounds.rows.empty() && bounds.rows.size() != geometry.rows)) {
    return invalid_argument("nothing to plan, or not a bound for each row");
  }
  return Planner(record, geometry, bounds, read, scratch).plan();
}

}  // namespace cfck::codec
