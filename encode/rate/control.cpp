#include "encode/rate/control.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/cpu/float_environment.hpp"
#include "base/numbers/decibels.hpp"
#include "base/numbers/piecewise_log2.hpp"
#include "encode/rate/model_steps.hpp"
#include "encode/trial/choose_candidate.hpp"
#include "encode/trial/record_trial.hpp"
#include "encode/value_totals.hpp"

namespace cfck::encode {
namespace {

// Targets count as met within these shares: sizes, and squared errors within 0.05 dB.
constexpr double kSizeShare = 0.995;
constexpr double kSquaresShare = 0.9886;  // 10^-0.005, rounded up
// Magnitudes over steps beyond which lossless is as good, and below which everything is zero in
// blocks of any size.
constexpr double kFinestShare = 0x1p-28;
constexpr double kCoarsestShare = 0x1p10;
// Sums of squares beyond this may overflow when added up, or with a range.
constexpr double kMaxSquares = 0x1p960;
// One bit is left where the step is 2^1.05 standard deviations; each further bit halves
// the step.
constexpr double kOctavesOfNoBits = 2.05;
// Maximum difference between a root mean square and that of the calibration: a model in another
// dtype is still accepted.
constexpr double kSigmaShare = 0.01;

bool counts_bytes(const Target& target) {
  return target.kind != TargetKind::kNmse && target.kind != TargetKind::kPsnr;
}

}  // namespace

// One tensor, and what is known about it.
struct RateControl::Item {
  explicit Item(const EncodePlan& encode_plan)
      : plan(encode_plan), open(*encode_plan.choice.request->open_step()) {}

  const ChunkGeometry& geometry() const { return plan.geometry; }
  std::uint64_t n_bytes() const { return geometry().n_elems * bits_per_element(plan.dtype) / 8; }
  double scale() const { return open.scale * (open.sigma > 0 ? values.rms() : 1) * model_step; }
  codec::SharedRequest request(double step) const {
    return plan.choice.request->with_step(step * scale());
  }
  // True if the target is for it: values that are exempt are not included.
  bool counts() const { return !reason; }
  bool has_plan() const { return !trial.candidates.empty(); }
  bool is_lossless(const FrameCosts& costs) const {
    return !has_plan() || choose_candidate(std::array{lossless.stored_bytes(geometry(), costs),
                                                      trial.stored_bytes(0, costs)}) == 0;
  }
  const RecordSize& size(const FrameCosts& costs) const {
    return is_lossless(costs) ? lossless : trial.measured.front().size;
  }
  const RecordErrors& errors() const { return trial.measured.front().errors; }
  double squares(const FrameCosts& costs) const {
    return is_lossless(costs) ? 0 : errors().totals.sum_of_squares;
  }

  const EncodePlan& plan;
  const codec::OpenStep open;
  ValueTotals values;
  double model_step = 1;  // of OpenStep::follows_roles
  RecordSize lossless;
  std::optional<LosslessReason> reason;  // why no step is tried
  // The last trial: one candidate, or none where there is no plan.
  RecordTrial trial;
  LosslessReason no_plan = LosslessReason::kNotSmaller;
};

RateControl::RateControl(const FrameCosts& costs, unsigned threads, Listener listener)
    : costs_(costs),
      threads_(threads),
      listener_(std::move(listener)),
      executor_(std::make_unique<Executor>(threads)) {
  progress_.set_listener([this](std::uint64_t done_bytes, std::string_view name) {
    search_.done_bytes = done_bytes;
    search_.name = name;
    return listener_(search_);
  });
}

RateControl::~RateControl() = default;

void RateControl::begin_trial(unsigned trial, std::uint64_t n_bytes) {
  search_ = {trial, 0, 2 * n_bytes, {}};
  progress_.restart();
}

Result<std::vector<StepDecision>> RateControl::decide(const Target& target,
                                                      std::span<const EncodePlan> plans,
                                                      const FileBytes& file_bytes) {
  const DefaultFloatEnvironment environment;
  target_ = target;
  file_bytes_ = &file_bytes;
  CFCK_TRY(measure(plans));
  CFCK_TRY_ASSIGN(const double step, find());
  std::vector<StepDecision> decisions;
  for (const std::shared_ptr<Item>& item : items_) {
    StepDecision& decision = decisions.emplace_back();
    const ValueTotals& values = item->values;
    const Target promised = target_.kind == TargetKind::kNone ? Target{} : target_;
    decision.quality = {promised, values.rms(), values.min, values.max};
    if (!item->is_lossless(costs_)) {
      decision.request = item->request(step);
      decision.stored_bytes = item->trial.stored_bytes(0, costs_);
      decision.rmse = item->errors().rmse();
    } else if (!item->has_plan()) {
      decision.reason = item->reason.value_or(item->no_plan);
    }
  }
  return decisions;
}

Result<void> RateControl::measure(std::span<const EncodePlan> plans) {
  std::vector<EncodePlan> lossless;
  items_.clear();
  std::uint64_t n_bytes = 0;
  for (const EncodePlan& plan : plans) {
    lossless.push_back(plan);
    lossless.back().choice = without_loss(plan.choice.codec);
    items_.push_back(std::make_shared<Item>(plan));
    items_.back()->trial.plan = &plan;
    items_.back()->trial.progress = &progress_;
    items_.back()->trial.counts_bytes = true;
    n_bytes += items_.back()->n_bytes();
  }
  begin_trial(0, n_bytes);
  const auto progress = [&](std::uint64_t done_bytes, std::string_view name) {
    return progress_.advance(name, done_bytes - progress_.done_bytes());
  };
  CFCK_TRY_ASSIGN(std::vector<RecordSize> sizes,
                  record_sizes(lossless, costs_, threads_, progress));
  for (std::size_t i = 0; i < items_.size(); ++i) {
    items_[i]->lossless = std::move(sizes[i]);
    CFCK_TRY(submit_totals(*items_[i]));
  }
  CFCK_TRY(executor_->drain());
  set_model_steps(plans);
  for (const std::shared_ptr<Item>& item : items_) {
    const ValueTotals& values = item->values;
    const TensorChoice& choice = item->plan.choice;
    if (choice.keeps_near_zero && values.rms() < choice.bound->value) {
      item->reason = LosslessReason::kNearZero;
    } else if (values.min == values.max) {
      item->reason = LosslessReason::kConstant;
    } else if (!is_sound_sum(values.sum_of_squares) || values.sum_of_squares > kMaxSquares) {
      item->reason = LosslessReason::kOutOfRange;
    }
    CFCK_TRY(check_calibration(*item));
  }
  return {};
}

Result<void> RateControl::submit_totals(Item& item) {
  return executor_->submit_chunks(
      item.geometry().n_chunks,
      [&item](std::uint64_t chunk, WorkerMemory& memory) -> Result<ValueTotals> {
        CFCK_TRY_ASSIGN(const ByteView values, read_chunk(item.plan, chunk, memory));
        return total_values(item.plan.dtype, values);
      },
      [this, &item](std::uint64_t chunk, const ValueTotals& of_chunk) {
        item.values.add(of_chunk);
        return progress_.advance(item.plan.name, item.geometry().bytes_of(chunk));
      });
}

// Without a plan no chunk is tried, and all of the tensor's bytes count as done.
Result<void> RateControl::submit_plan(Item& item) {
  return executor_->submit(
      [this, &item](WorkerMemory& memory) { return plan_with(item, tried_step_, memory); },
      [this, &item](const LossyCandidate& planned) {
        item.no_plan = planned.reason;
        item.trial.start(planned.candidate ? CandidateList{*planned.candidate} : CandidateList{});
        return progress_.advance(item.plan.name, item.n_bytes() * (item.has_plan() ? 1 : 2));
      });
}

Result<LossyCandidate> RateControl::plan_with(const Item& item, double step,
                                              WorkerMemory& memory) const {
  if (step * item.scale() < item.values.max_magnitude() * kFinestShare) {
    return LossyCandidate{};
  }
  EncodePlan plan = item.plan;
  plan.choice.request = item.request(step);
  plan.has_step = true;
  return plan_lossy(plan, costs_, plan.entropy, plan.level, memory);
}

void RateControl::set_model_steps(std::span<const EncodePlan> plans) {
  std::vector<ValueTotals> totals;
  for (const std::shared_ptr<Item>& item : items_) {
    totals.push_back(item->values);
  }
  const std::vector<double> steps = model_steps(plans, totals);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    items_[i]->model_step = steps[i];
  }
}

// A calibration of another model with equal names and shapes would otherwise go unnoticed.
Result<void> RateControl::check_calibration(const Item& item) const {
  const double expected = item.open.sigma;
  if (expected > 0 && !(std::abs(item.values.rms() - expected) <= kSigmaShare * expected)) {
    return invalid_argument(
               "the calibration was made of other values: their root mean square was " +
               std::to_string(expected) + ", here it is " + std::to_string(item.values.rms()) +
               "; calibrate this model")
        .in_record(item.plan.name);
  }
  return {};
}

Result<double> RateControl::find() {
  const bool any_open = std::any_of(items_.begin(), items_.end(),
                                    [](const auto& item) { return !item->reason.has_value(); });
  if (target_.kind == TargetKind::kNone) {
    return any_open ? find_without_target() : 0.0;
  }
  if (!any_open) {
    CFCK_TRY_ASSIGN(const double taken, measured());
    return taken > most_measured() ? Result<double>(unreachable(taken)) : 0.0;
  }
  CFCK_TRY_ASSIGN(const StepGoal goal, this->goal());
  CFCK_TRY_ASSIGN(const FoundStep found,
                  find_step(goal, [this](double step) { return try_step(step); }));
  if (!found.keeps) {
    return unreachable(found.measured);
  }
  if (tried_step_ != found.step) {
    CFCK_TRY(try_step(found.step));
  }
  return found.step;
}

Result<double> RateControl::find_without_target() {
  if (items_.front()->open.of_bound.empty()) {
    CFCK_TRY(try_step(items_.front()->open.known));
    return tried_step_;
  }
  const double bound = items_.front()->plan.choice.bound->value;
  double best_step = 0;
  double min_bytes = std::numeric_limits<double>::infinity();
  for (const double share : items_.front()->open.of_bound) {
    CFCK_TRY_ASSIGN(const StepOutcome outcome, try_step(share * bound));
    if (!(outcome.measured < min_bytes)) {
      break;
    }
    best_step = tried_step_;
    min_bytes = outcome.measured;
  }
  if (tried_step_ != best_step) {
    CFCK_TRY(try_step(best_step));
  }
  return best_step;
}

double RateControl::most_measured() const {
  double n_elems = 0;
  ValueTotals values;
  for (const std::shared_ptr<Item>& item : items_) {
    if (item->counts()) {
      n_elems += static_cast<double>(item->geometry().n_elems);
      values.add(item->values);
    }
  }
  switch (target_.kind) {
    case TargetKind::kNmse:
      return target_.value * values.sum_of_squares;
    case TargetKind::kPsnr: {
      const double range = values.max - values.min;
      return range * range * ratio_of_decibels(-target_.value) *
             static_cast<double>(values.n_finite);
    }
    case TargetKind::kBitsPerWeight:
      return target_.value * n_elems / 8;
    default:
      return target_.value;
  }
}

Result<StepGoal> RateControl::goal() const {
  StepGoal goal;
  double min_magnitude = std::numeric_limits<double>::infinity();
  double max_magnitude = 0;
  double n_elems = 0;
  double octaves = 0;  // log2 of the standard deviations
  for (const std::shared_ptr<Item>& item : items_) {
    if (item->reason) {
      continue;
    }
    const double magnitude = item->values.max_magnitude() / item->scale();
    min_magnitude = std::min(min_magnitude, magnitude);
    max_magnitude = std::max(max_magnitude, magnitude);
    const auto n = static_cast<double>(item->geometry().n_elems);
    n_elems += n;
    octaves += n * piecewise_linear_log2(item->values.rms() / item->scale());
  }
  goal.finest_step = min_magnitude * kFinestShare / 2;
  goal.coarsest_step = max_magnitude * kCoarsestShare;
  goal.bytes_per_octave = n_elems / 8;
  goal.most = most_measured();
  if (counts_bytes(target_)) {
    goal.measure = StepGoal::Measure::kBytes;
    goal.min = goal.most * kSizeShare;
    CFCK_TRY_ASSIGN(goal.min_bytes, bytes_of_others());
    const double bits = 8 * std::max(goal.most - goal.min_bytes, 0.0) / n_elems;
    goal.first_step = piecewise_linear_exp2(
        std::clamp(octaves / n_elems + kOctavesOfNoBits - bits, -1000.0, 1000.0));
  } else {
    goal.measure = StepGoal::Measure::kSquares;
    goal.min = goal.most * kSquaresShare;
    goal.first_step = std::sqrt(12 * goal.most / n_elems);
  }
  if (items_.front()->open.known > 0) {
    goal.first_step = items_.front()->open.known;
  }
  goal.first_step = std::clamp(goal.first_step, goal.finest_step, goal.coarsest_step);
  return goal;
}

Result<StepOutcome> RateControl::try_step(double step) {
  tried_step_ = step;
  std::uint64_t n_bytes = 0;
  for (const std::shared_ptr<Item>& item : items_) {
    n_bytes += item->reason ? 0 : item->n_bytes();
  }
  begin_trial(search_.trial + 1, n_bytes);
  for (const std::shared_ptr<Item>& item : items_) {
    if (!item->reason) {
      CFCK_TRY(submit_plan(*item));
    }
  }
  CFCK_TRY(executor_->drain());
  for (const std::shared_ptr<Item>& item : items_) {
    if (item->has_plan()) {
      CFCK_TRY(submit_trial(*executor_, std::shared_ptr<RecordTrial>(item, &item->trial)));
    }
  }
  CFCK_TRY(executor_->drain());
  StepOutcome outcome;
  CFCK_TRY_ASSIGN(outcome.measured, measured());
  outcome.is_finest = std::all_of(items_.begin(), items_.end(),
                                  [&](const auto& item) { return item->is_lossless(costs_); });
  return outcome;
}

Result<double> RateControl::measured() const {
  double sum = 0;
  if (target_.kind == TargetKind::kSize) {
    std::vector<RecordSize> sizes;
    for (const std::shared_ptr<Item>& item : items_) {
      sizes.push_back(item->size(costs_));
    }
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, (*file_bytes_)(sizes));
    return static_cast<double>(n_bytes);
  }
  for (const std::shared_ptr<Item>& item : items_) {
    if (!item->counts()) {
      continue;
    }
    sum += counts_bytes(target_)
               ? static_cast<double>(item->size(costs_).stored_bytes(item->geometry(), costs_))
               : item->squares(costs_);
  }
  return sum;
}

// Computes, before any trial, the bytes that the target includes besides tensors with a step.
Result<double> RateControl::bytes_of_others() const {
  CFCK_TRY_ASSIGN(double n_bytes, measured());
  for (const std::shared_ptr<Item>& item : items_) {
    if (!item->reason) {
      n_bytes -= static_cast<double>(item->lossless.stored_bytes(item->geometry(), costs_));
    }
  }
  return n_bytes;
}

// Only bytes have a limit that even lossless cannot reach.
Error RateControl::unreachable(double measured) const {
  std::string message;
  if (target_.kind == TargetKind::kSize) {
    message = "size is too small: with the coarsest steps the file takes " +
              std::to_string(static_cast<std::uint64_t>(measured)) + " bytes, more than " +
              std::to_string(static_cast<std::uint64_t>(target_.value)) +
              "; allow that size, or use rules with targets to compress more tensors";
  } else {
    const double most = most_measured();
    message = "bits_per_weight is too small: with the coarsest steps the tensors take " +
              std::to_string(static_cast<std::uint64_t>(measured)) + " bytes, but it allows " +
              std::to_string(static_cast<std::uint64_t>(most)) + "; set " +
              std::to_string(target_.value * measured / most) + " or more";
  }
  const bool is_single = items_.size() == 1 && !target_.whole_file;
  return invalid_argument(std::move(message))
      .in_record(is_single ? items_.front()->plan.name : std::string());
}

}  // namespace cfck::encode
