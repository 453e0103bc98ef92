#include "spectral/plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/indices/scale_field_fit.hpp"
#include "spectral/chunk/coefficients.hpp"
#include "spectral/feedback/encode.hpp"
#include "spectral/feedback/field.hpp"
#include "spectral/feedback/step_learning.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/layout/scratch.hpp"
#include "spectral/plan/block_choice.hpp"
#include "spectral/plan/place_field_fit.hpp"
#include "spectral/plan/request.hpp"
#include "spectral/plan/sample.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {
namespace {

// A scale field needs all coefficients at once.
inline constexpr std::uint64_t kMaxFieldValues = std::uint64_t{1} << 24;
// A transform must save more than this, in bits for each value.
inline constexpr double kTransformGain = 0.02;
// Coefficients are rounded to sixteenths of an index for the field: a factor of 2^4.
inline constexpr int kFieldQuarters = 16;
inline constexpr int kMaxStepQuarters = 400;
// In a matrix with rows up to this long, whose rows may be transformed together, a sample has whole
// rows.
inline constexpr std::uint64_t kMaxTallRow = 4096;
inline constexpr int kTargetRounds = 1;

struct Candidate {
  bool transforms = false;
  CoefficientOrder order = CoefficientOrder::kStorage;
  BlockSides sides;
  bool has_ranges = false;
};

std::uint64_t n_places(const BlockSides& sides) {
  return std::accumulate(sides.begin(), sides.end(), std::uint64_t{1}, std::multiplies<>());
}

double nearest_power(double step) {
  int exponent = 0;
  const double mantissa = std::frexp(step, &exponent);
  return std::ldexp(1.0, mantissa < 0x1.6a09e667f3bcdp-1 ? exponent - 1 : exponent);
}

void add_to(std::vector<std::int16_t>& sums, const std::vector<std::int16_t>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sums[i] = static_cast<std::int16_t>(sums[i] + steps[i]);
  }
}

class Planner {
 public:
  Planner(const LossyRecord& record, const ReadValues& read, Scratch& scratch)
      : record_(record),
        request_(*spectral_request(record)),
        read_(read),
        scratch_(scratch),
        value_bytes_(bits_per_element(record.dtype) / 8) {}

  Result<SpectralPlan> plan() {
    CFCK_TRY(begin());
    CFCK_TRY_ASSIGN(std::optional<SpectralPlan> compensated, plan_compensated());
    if (compensated) {
      return *std::move(compensated);
    }
    CFCK_TRY(choose());
    SpectralPlan plan;
    plan.is_inline = n_values_ <= record_.chunk_elems;
    plan.prefers_lossless = prefers_lossless_;
    plan.parameters = parameters_of(best_, {});
    if (best_.order == CoefficientOrder::kBins && !prefers_lossless_) {
      if (sample_.is_whole) {
        plan.parameters.scales = std::move(best_scales_);
      } else {
        CFCK_TRY_ASSIGN(plan.parameters.scales, fit_record(plan.parameters));
        if (plan.parameters.has_ranges) {
          pool_ranges(plan.parameters.scales.bands);
        }
      }
    }
    return plan;
  }

 private:
  Result<void> check_steps(const SpectralGeometry& flat) const {
    const StepField& steps = request_.steps;
    CFCK_TRY_ASSIGN(const SpectralGeometry blocks,
                    SpectralGeometry::create(record_.shape, block_of_bands()));
    const SpectralGeometry& grid = request_.has_block_bands ? blocks : flat;
    const auto fits = [](const std::vector<std::int16_t>& quarters, std::uint64_t n) {
      return quarters.empty() ||
             (quarters.size() == n && std::ranges::all_of(quarters, [](std::int16_t q) {
                return q >= -kMaxStepQuarters && q <= kMaxStepQuarters;
              }));
    };
    if (!fits(steps.bands, blocks.n_bands()) || !fits(steps.rows, grid.n_rows()) ||
        !fits(steps.columns, grid.n_columns())) {
      return invalid_argument(
          "the step field does not fit the tensor: another length, or steps "
          "beyond 400");
    }
    return {};
  }

  Result<void> begin() {
    CFCK_TRY_ASSIGN(const SpectralGeometry flat, SpectralGeometry::create(record_.shape, {}));
    n_values_ = flat.n_values();
    row_values_ = flat.row_values();
    kernel_ = kernel_block(record_.shape);
    CFCK_TRY(choose_block());
    CFCK_TRY(check_steps(flat));
    CFCK_TRY_ASSIGN(sample_, take_sample(record_, read_, rows_together()));
    return {};
  }

  // Chooses the block to be tried: the one asked for, the kernel, or that of a matrix of alike
  // rows.
  Result<void> choose_block() {
    block_ = chosen_block(record_.shape, request_.block);
    is_asked_ = asks_for_block(record_.shape, request_.block);
    if (is_asked_ || record_.shape.size() != 2 || request_.moments != nullptr) {
      return {};
    }
    BlockSides tall = tall_block(record_.shape, record_.chunk_elems);
    if (!tall.empty() && row_values_ <= kMaxTallRow) {
      CFCK_TRY_ASSIGN(const bool has_similar_rows, are_rows_similar(record_, read_));
      block_ = has_similar_rows ? std::move(tall) : BlockSides();
    }
    return {};
  }

  const BlockSides& block_of_bands() const { return request_.has_block_bands ? block_ : kernel_; }

  std::uint64_t rows_together() const {
    return record_.shape.size() < 2 ? 1 : block_side(block_, record_.shape.size(), 0);
  }

  // True if there are moments for whole rows.
  bool may_feed_back() const {
    return request_.moments != nullptr && request_.moments->n() == row_values_ &&
           sample_.is_shaped() && n_values_ <= kMaxFieldValues && has_whole_blocks() &&
           (record_.shape.size() == 2 || !kernel_.empty()) && (!is_asked_ || block_ == kernel_);
  }

  // Returns nullopt where errors cannot be compensated.
  Result<std::optional<SpectralPlan>> plan_compensated() {
    if (!may_feed_back()) {
      return std::optional<SpectralPlan>();
    }
    return request_.corrected ? plan_corrected() : plan_feedback();
  }

  // Plans the record as if it held the corrected values.
  Result<std::optional<SpectralPlan>> plan_corrected() {
    auto request = std::make_shared<SpectralRequest>(request_);
    request->corrected.reset();
    LossyRecord record = record_;
    record.dtype = DType::kF32;
    record.request = std::move(request);
    const ReadValues read = [this](std::uint64_t first_elem, std::uint64_t n_elems,
                                   std::vector<std::byte>& workspace) -> Result<ByteView> {
      workspace.clear();
      return std::as_bytes(std::span(*request_.corrected).subspan(first_elem, n_elems));
    };
    Planner planner(record, read, scratch_);
    CFCK_TRY(planner.begin());
    return planner.plan_compensated();
  }

  // Steps are those that suit error compensation best, bins those of the compensated values. The
  // scale field is that of the nearest power of two as step, moved to the step itself: so columns
  // keep their order from trial to trial, and with it what is cached about them.
  Result<std::optional<SpectralPlan>> plan_feedback() {
    SpectralPlan plan;
    plan.is_inline = n_values_ <= record_.chunk_elems;
    SpectralParameters& parameters = plan.parameters;
    parameters.n_states = std::min(request_.n_states, 8u);
    parameters.step = nearest_power(request_.step);
    parameters.sides = kernel_;
    parameters.transforms = !kernel_.empty();
    parameters.order = CoefficientOrder::kRowBlocks;
    CFCK_TRY_ASSIGN(const std::vector<double> squares, mean_squares(parameters));
    CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                    SpectralGeometry::create(record_.shape, parameters.sides));
    std::optional<StepField> steps =
        feedback_steps(geometry, transformed_sides(parameters), squares, *request_.moments);
    if (!steps) {
      return std::optional<SpectralPlan>();
    }
    parameters.steps = *std::move(steps);
    CFCK_TRY_ASSIGN(parameters.scales, fit_record(parameters));
    for (int round = 0; round < kTargetRounds; ++round) {
      CFCK_TRY_ASSIGN(parameters.scales, fit_targets(geometry, parameters));
    }
    const std::int32_t finer = nearest_quarter_octaves(parameters.step / request_.step);
    for (std::int16_t& band : parameters.scales.bands) {
      band = static_cast<std::int16_t>(band + finer);
    }
    parameters.step = request_.step;
    return std::optional(std::move(plan));
  }

  // Fits scales to the compensated targets of the coefficients, which are larger.
  Result<QuarterField> fit_targets(const SpectralGeometry& geometry,
                                   const SpectralParameters& parameters) {
    std::vector<float> compensated(std::min(n_values_, record_.chunk_elems));
    return fit_chunks(
        geometry, parameters.steps,
        [&](const SpectralChunkInfo& info, ByteView values, std::int32_t* indices) -> Result<void> {
          CFCK_TRY(compensated_targets(info, parameters, *request_.moments, values, scratch_,
                                       compensated));
          spectral_kernels().round_indices(compensated.data(), info.n_elems,
                                           sixteenths_of_step(parameters), indices);
          return {};
        });
  }

  // Mean squares of the coefficients of the sample, by place in a row, in steps.
  Result<std::vector<double>> mean_squares(const SpectralParameters& parameters) {
    const std::uint64_t n = sample_.values.size() / value_bytes_;
    const SpectralChunkInfo info = whole_chunk(sample_.shape, n);
    CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                    SpectralGeometry::create(info.shape, parameters.sides));
    float* const in_steps = scratch_.part<SpectralScratch>().workspace.in_steps.reserve(n);
    CFCK_TRY(coefficients_in_steps(info, geometry, parameters, sample_.values, {in_steps, n}));
    std::vector<double> squares(row_values_);
    for (std::uint64_t i = 0; i < n; ++i) {
      squares[i % row_values_] += double{in_steps[i]} * in_steps[i];
    }
    return squares;
  }

  // True if each block is in one chunk and in one piece of the sample.
  bool may_transform() const {
    return sample_.is_shaped() && !is_one_value(block_) && has_whole_blocks();
  }

  bool has_whole_blocks() const { return has_whole_rows(rows_together()); }

  bool has_whole_rows(std::uint64_t n_together = 1) const {
    return n_values_ <= record_.chunk_elems ||
           (record_.shape.size() >= 2 && record_.chunk_elems % (row_values_ * n_together) == 0);
  }

  // Candidates, those with a scale field last.
  std::vector<Candidate> candidates() const {
    const bool has_blocks = may_transform();
    const bool has_kernels = sample_.is_shaped() && !kernel_.empty() && has_whole_rows();
    const bool must_transform =
        has_blocks && (is_asked_ || (block_ == kernel_ && !request_.steps.bands.empty()));
    // An index must consist of rows, columns and bands only.
    const bool is_grid = record_.shape.size() == 2 || has_kernels || has_blocks;
    const bool may_fit = sample_.is_shaped() && is_grid && n_values_ <= kMaxFieldValues &&
                         record_.level != EncodeLevel::kFast;
    std::vector<Candidate> found;
    if (!must_transform) {
      found.push_back({});
    }
    if (has_blocks) {
      found.push_back({true, CoefficientOrder::kBands, block_, false});
    }
    if (has_blocks && may_fit) {
      found.push_back({true, CoefficientOrder::kBins, block_, false});
      if (n_places(block_) > kSingleBands) {
        found.push_back({true, CoefficientOrder::kBins, block_, true});
      }
    }
    if (may_fit && !must_transform) {
      found.push_back(
          {false, CoefficientOrder::kBins, has_kernels ? kernel_ : BlockSides(), false});
    }
    return found;
  }

  // `rows` are those of the record that the shape has; if empty, all.
  SpectralParameters parameters_of(const Candidate& candidate,
                                   std::span<const std::uint64_t> rows) const {
    SpectralParameters parameters;
    parameters.n_states = request_.n_states;
    parameters.step = request_.step;
    parameters.transforms = candidate.transforms;
    parameters.order = candidate.order;
    parameters.sides = candidate.sides;
    parameters.has_ranges = candidate.has_ranges;
    if (!sample_.is_shaped()) {
      return parameters;
    }
    if (candidate.transforms && candidate.sides == block_of_bands()) {
      parameters.steps.bands = request_.steps.bands;
      if (candidate.has_ranges) {
        pool_ranges(parameters.steps.bands);
      }
    }
    std::vector<std::int16_t> of_rows = request_.steps.rows;
    if (!rows.empty() && !of_rows.empty()) {
      const std::uint64_t height =
          request_.has_block_bands ? block_side(candidate.sides, record_.shape.size(), 0) : 1;
      of_rows.clear();
      for (const std::uint64_t row : rows) {
        if (row % height == 0) {
          of_rows.push_back(request_.steps.rows[row / height]);
        }
      }
    }
    const auto per_block = [&](const std::vector<std::int16_t>& quarters, std::size_t axis) {
      const std::size_t n_axes = record_.shape.size();
      return request_.has_block_bands || n_axes <= axis
                 ? quarters
                 : pooled(quarters, block_side(candidate.sides, n_axes, axis));
    };
    const bool is_matrix = record_.shape.size() >= 2;
    parameters.steps.rows = is_matrix ? per_block(of_rows, 0) : of_rows;
    parameters.steps.columns = per_block(request_.steps.columns, is_matrix ? 1 : 0);
    return parameters;
  }

  SpectralChunkInfo whole_chunk(std::span<const std::uint64_t> shape, std::uint64_t n) const {
    SpectralChunkInfo info;
    info.dtype = record_.dtype;
    info.entropy = record_.entropy;
    info.shape = shape;
    info.n_elems = n;
    return info;
  }

  // Chooses the candidate that is estimated to take the fewest bits.
  Result<void> choose() {
    const std::uint64_t n = sample_.values.size() / value_bytes_;
    const SpectralChunkInfo info = whole_chunk(sample_.shape, n);
    double min = INFINITY;
    for (const Candidate& candidate : candidates()) {
      CFCK_TRY_ASSIGN(double bits, bits_of(info, candidate));
      bits += candidate.transforms ? kTransformGain : 0;
      if (bits < min) {
        min = bits;
        best_ = candidate;
        best_scales_ = std::move(tried_scales_);
      }
    }
    EncodedChunk lossless;
    CFCK_TRY(encode_lossless(lossless_info(info), sample_.values, scratch_, lossless));
    prefers_lossless_ = !record_.is_forced && static_cast<double>(lossless.payload.size()) * 8 <=
                                                  min * static_cast<double>(n);
    return {};
  }

  // Estimates bits for each value of the record. Vectors of rows grow with these, the others do
  // not.
  Result<double> bits_of(const SpectralChunkInfo& info, const Candidate& candidate) {
    SpectralParameters parameters = parameters_of(candidate, sample_.rows);
    CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                    SpectralGeometry::create(info.shape, parameters.sides));
    if (candidate.order == CoefficientOrder::kBins) {
      std::int32_t* const indices =
          scratch_.part<ChunkBuffers>().ordered_indices.reserve(info.n_elems);
      CFCK_TRY(append_indices(info, geometry, parameters, sample_.values, indices));
      parameters.scales = fit(geometry, parameters.steps, {indices, info.n_elems});
      if (candidate.has_ranges) {
        pool_ranges(parameters.scales.bands);
      }
    }
    tried_scales_ = parameters.scales;
    SpectralParameters shared = parameters;
    shared.scales.rows.clear();
    std::vector<std::byte> shared_bytes;
    append_spectral_parameters(shared, shared_bytes);
    SpectralChoice choice;
    choice.is_inline = true;
    choice.lambda = static_cast<float>(request_.lambda);
    CFCK_TRY_ASSIGN(const std::size_t estimate,
                    estimate_spectral(info, parameters, choice, sample_.values, scratch_));
    const auto n_record = static_cast<double>(n_values_);
    const auto n_sample = static_cast<double>(info.n_elems);
    const auto n_shared = static_cast<double>(shared_bytes.size());
    const auto n_bytes = static_cast<double>(estimate);
    return 8 * ((n_bytes - n_shared) / n_sample + n_shared / n_record);
  }

  // Writes the coefficients of a chunk in sixteenths of an index.
  Result<void> append_indices(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
                              const SpectralParameters& parameters, ByteView values,
                              std::int32_t* indices) const {
    float* const in_steps =
        scratch_.part<SpectralScratch>().workspace.in_steps.reserve(info.n_elems);
    CFCK_TRY(coefficients_in_steps(info, geometry, parameters, values, {in_steps, info.n_elems}));
    spectral_kernels().round_indices(in_steps, info.n_elems, sixteenths_of_step(parameters),
                                     indices);
    return {};
  }

  // Sixteenths of an index for each step: levels of two quantisers are two steps apart.
  static float sixteenths_of_step(const SpectralParameters& parameters) {
    return parameters.n_states == 1 ? 16.0f : 8.0f;
  }

  // Indices are relative to their own steps; the scales are not.
  QuarterField fit(const SpectralGeometry& geometry, const StepField& steps,
                   std::span<const std::int32_t> indices) const {
    QuarterField scales =
        geometry.is_simple() ? fit_grid(geometry, indices) : fit_place_field(geometry, indices);
    for (std::int16_t& band : scales.bands) {
      band = static_cast<std::int16_t>(band - kFieldQuarters);
    }
    add_to(scales.bands, steps.bands);
    add_to(scales.rows, steps.rows);
    add_to(scales.columns, steps.columns);
    return scales;
  }

  // The faster fit, where blocks are kernels.
  static QuarterField fit_grid(const SpectralGeometry& geometry,
                               std::span<const std::int32_t> indices) {
    const IndexGrid grid{geometry.n_rows(), geometry.n_columns(), geometry.kernel_size()};
    ScaleField field = fit_scale_field(grid, indices);
    QuarterField scales;
    scales.bands.resize(field.bands.size());
    for (std::size_t position = 0; position < field.bands.size(); ++position) {
      scales.bands[geometry.band_of_position()[position]] = field.bands[position];
    }
    scales.rows = std::move(field.rows);
    scales.columns = std::move(field.columns);
    return scales;
  }

  Result<QuarterField> fit_record(const SpectralParameters& parameters) {
    CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                    SpectralGeometry::create(record_.shape, parameters.sides));
    return fit_chunks(geometry, parameters.steps,
                      [&](const SpectralChunkInfo& info, ByteView values, std::int32_t* indices) {
                        return append_indices(info, geometry, parameters, values, indices);
                      });
  }

  // Fits to what `indices_of` writes for each chunk of the record, in sixteenths of an index.
  template <class CodesOf>
  Result<QuarterField> fit_chunks(const SpectralGeometry& geometry, const StepField& steps,
                                  const CodesOf& indices_of) {
    std::vector<std::int32_t> indices(n_values_);
    std::vector<std::byte> workspace;
    for (std::uint64_t first = 0; first < n_values_; first += record_.chunk_elems) {
      SpectralChunkInfo info = whole_chunk(record_.shape, 0);
      info.first_elem = first;
      info.n_elems = std::min(record_.chunk_elems, n_values_ - first);
      CFCK_TRY_ASSIGN(const ByteView values, read_(first, info.n_elems, workspace));
      CFCK_TRY(indices_of(info, values, indices.data() + first));
    }
    return fit(geometry, steps, indices);
  }

  const LossyRecord& record_;
  const SpectralRequest& request_;
  const ReadValues& read_;
  Scratch& scratch_;
  const std::size_t value_bytes_;
  std::uint64_t n_values_ = 0;
  std::uint64_t row_values_ = 0;
  BlockSides kernel_;  // empty: there is none
  BlockSides block_;   // to be tried
  bool is_asked_ = false;
  SpectralSample sample_;
  Candidate best_;
  QuarterField best_scales_;  // of the sample
  QuarterField tried_scales_;
  bool prefers_lossless_ = false;
};

}  // namespace

Result<SpectralPlan> plan_spectral(const LossyRecord& record, const ReadValues& read,
                                   Scratch& scratch) {
  return Planner(record, read, scratch).plan();
}

}  // namespace cfck::spectral
