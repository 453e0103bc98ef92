#include "spectral/training/rate_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/cpu/float_environment.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "spectral/chunk/coefficients.hpp"
#include "spectral/chunk/spectral.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/quantisers.hpp"
#include "spectral/layout/coefficient_order.hpp"
#include "spectral/plan/plan.hpp"
#include "spectral/plan/request.hpp"

namespace cfck::spectral {
namespace {

// Writers cut tensors so unless they are asked for other chunks.
inline constexpr std::uint64_t kChunkValues = 1 << 18;

class RateFit {
 public:
  RateFit(const WeightLayout& layout, std::span<const float> values, std::span<std::uint8_t> bins)
      : layout_(layout), values_(values), bins_(bins) {}

  Result<TrainingRate> fit(double step, const StepField& field) {
    const std::uint64_t whole = std::max<std::uint64_t>(kChunkValues / layout_.row_values, 1);
    chunk_values_ = layout_.n_values <= kChunkValues ? kChunkValues : whole * layout_.row_values;
    CFCK_TRY(plan(step, field));
    std::vector<std::byte> preamble;
    if (!plan_.is_inline) {
      append_spectral_parameters(plan_.parameters, preamble);
    }
    std::uint64_t n_bytes = preamble.size();
    for (std::uint64_t first = 0; first < layout_.n_values; first += chunk_values_) {
      CFCK_TRY_ASSIGN(const std::uint64_t chunk_bytes, fit_chunk(first));
      n_bytes += chunk_bytes;
    }
    // Values that are all zero are those of a constant, which takes no bytes but in the index.
    return TrainingRate{cheapest_family(), has_levels_ ? 8 * n_bytes : 0};
  }

 private:
  Result<void> plan(double step, const StepField& field) {
    LossyRecord record;
    record.dtype = DType::kF32;
    record.shape = layout_.shape;
    record.chunk_elems = chunk_values_;
    record.entropy = EntropyId::kRans;
    record.is_forced = true;
    auto request = std::make_shared<SpectralRequest>();
    request->step = step;
    request->n_states = 1;
    request->steps = field;
    request->block = layout_.block;
    request->has_block_bands = true;
    if (layout_.block.empty()) {
      request->block.assign(layout_.shape.size(), 1);
    }
    record.request = std::move(request);
    const ReadValues read = [this](std::uint64_t first, std::uint64_t n,
                                   std::vector<std::byte>&) -> Result<ByteView> {
      return std::as_bytes(values_.subspan(first, n));
    };
    CFCK_TRY_ASSIGN(plan_, plan_spectral(record, read, scratch_));
    return {};
  }

  Result<std::uint64_t> fit_chunk(std::uint64_t first) {
    SpectralChunkInfo info;
    info.shape = layout_.shape;
    info.first_elem = first;
    info.n_elems = std::min(chunk_values_, layout_.n_values - first);
    const ByteView values = std::as_bytes(values_.subspan(first, info.n_elems));
    SpectralChoice choice;
    choice.is_inline = plan_.is_inline;
    CFCK_TRY_ASSIGN(const std::size_t n_bytes,
                    estimate_spectral(info, plan_.parameters, choice, values, scratch_));
    CFCK_TRY(find_bins(info, values));
    return std::uint64_t{n_bytes};
  }

  // Finds the bins of a chunk as its encoder does, and counts the symbols of each table.
  Result<void> find_bins(const SpectralChunkInfo& info, ByteView values) {
    CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                    SpectralGeometry::create(layout_.shape, plan_.parameters.sides));
    std::vector<float> in_steps(info.n_elems);
    CFCK_TRY(coefficients_in_steps(info, geometry, plan_.parameters, values, in_steps));
    CoefficientOrdering order(geometry, plan_.parameters, info.first_elem, info.n_elems, scratch_);
    std::vector<float> ordered(info.n_elems + CoefficientOrdering::kSpareBytes);
    std::vector<GroupCode> groups((info.n_elems + kGroupSize - 1) / kGroupSize);
    if (order.is_storage()) {
      std::copy(in_steps.begin(), in_steps.end(), ordered.begin());
    } else {
      order.gather(in_steps.data(), ordered.data());
    }
    if (predicts_bins(plan_.parameters.order)) {
      order.set_groups(groups.data());
    } else {
      spectral_kernels().assign_bins(ordered.data(), info.n_elems, 1, groups.data());
    }
    for (std::size_t i = 0; i < info.n_elems; ++i) {
      ordered[i] = count(groups[i / kGroupSize], ordered[i]);
    }
    float* const of_places = order.is_storage() ? ordered.data() : in_steps.data();
    if (!order.is_storage()) {
      CoefficientOrdering back(geometry, plan_.parameters, info.first_elem, info.n_elems, scratch_);
      back.scatter(ordered.data(), in_steps.data());
    }
    std::transform(of_places, of_places + info.n_elems, bins_.data() + info.first_elem,
                   [](float bin) { return static_cast<std::uint8_t>(bin); });
    return {};
  }

  // Counts the symbol of a coefficient, and returns its bin.
  float count(const GroupCode& group, float in_steps) {
    has_levels_ |= std::rint(in_steps) != 0;
    const unsigned bin = group.kind == GroupKind::kAllZero ? 0 : group.scale_bin;
    if (bin == 0) {
      return 0;
    }
    const SymbolCode code = kSymbolCodes.of[bin];
    const float high = std::floor(std::ldexp(std::rint(in_steps), -code.low_bits));
    const bool is_escape = !(std::abs(high) <= static_cast<float>(code.reach));
    const std::int32_t symbol = is_escape ? 0 : static_cast<std::int32_t>(high) + 16;
    ++counts_[code.table][static_cast<std::size_t>(symbol)];
    return static_cast<float>(bin);
  }

  std::uint32_t cheapest_family() const {
    std::uint32_t best = 0;
    std::uint64_t least = UINT64_MAX;
    for (unsigned family = 0; family < kRansFamilies; ++family) {
      std::uint64_t cost = 0;
      for (unsigned table = 0; table < kDirectTables; ++table) {
        cost +=
            coded_cost(counts_[table],
                       static_frequencies(value_table(family, kSpectralValueTables, 2 * table)));
      }
      if (cost < least) {
        least = cost;
        best = family;
      }
    }
    return best;
  }

  const WeightLayout& layout_;
  const std::span<const float> values_;
  const std::span<std::uint8_t> bins_;
  std::uint64_t chunk_values_ = 0;
  SpectralPlan plan_;
  Scratch scratch_;
  std::array<SymbolCounts, kDirectTables> counts_{};
  bool has_levels_ = false;  // other than 0
};

}  // namespace

Result<TrainingRate> fit_record_rate(const WeightLayout& layout, std::span<const float> values,
                                     double step, const StepField& field,
                                     std::span<std::uint8_t> bins) {
  const DefaultFloatEnvironment environment;
  return RateFit(layout, values, bins).fit(step, field);
}

}  // namespace cfck::spectral
