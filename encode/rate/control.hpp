// Steps of lossy codecs that reach a target, found by encoding.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cfck/writer.hpp"
#include "encode/executor.hpp"
#include "encode/plan.hpp"
#include "encode/progress.hpp"
#include "encode/rate/step_search.hpp"
#include "encode/record/sizes.hpp"
#include "encode/trial/candidates.hpp"

namespace cfck::encode {

// The final decision how to store a tensor.
struct StepDecision {
  // The request with its step; nullptr: losslessly, for `reason`.
  codec::SharedRequest request;
  LosslessReason reason = LosslessReason::kNotSmaller;
  RecordQuality quality;
  // With a request: the results of the trial with it.
  std::uint64_t stored_bytes = 0;
  double rmse = 0;
};

// Finds a step for each tensor, or one for all together, which their codecs put into the requests.
// Results are equal for any number of threads.
class RateControl {
 public:
  // Returns the bytes of the file if the tensors given to decide() have these sizes.
  using FileBytes = std::function<Result<std::uint64_t>(std::span<const RecordSize> sizes)>;

  // Called on the caller's thread regularly; its error ends the search.
  using Listener = std::function<Result<void>(const StepSearch& search)>;

  RateControl(const FrameCosts& costs, unsigned threads, Listener listener);
  ~RateControl();

  // Decides one target for all of `plans`, with one step times the scale of each. Without a target,
  // the step is a multiple of the maximum error of the first, or known. `file_bytes` is for
  // TargetKind::kSize. Errors: kInvalidArgument for a target that cannot be reached; those of codec
  // and sources.
  // Requires: all need a step (TensorChoice::needs_step).
  Result<std::vector<StepDecision>> decide(const Target& target, std::span<const EncodePlan> plans,
                                           const FileBytes& file_bytes = {});
  // The step of the last decision, before it was multiplied by the scale of each tensor.
  double step() const noexcept { return tried_step_; }

 private:
  struct Item;

  // Begins trial number `trial`, which goes through tensors of `n_bytes` bytes twice.
  void begin_trial(unsigned trial, std::uint64_t n_bytes);
  Result<void> measure(std::span<const EncodePlan> plans);
  Result<void> submit_totals(Item& item);
  // Makes the plan of a trial, with the step that is tried.
  Result<void> submit_plan(Item& item);
  Result<LossyCandidate> plan_with(const Item& item, double step, WorkerMemory& memory) const;
  // Requires: the values of all items are known.
  void set_model_steps(std::span<const EncodePlan> plans);
  // Finds the step of the target, and leaves the items as they are with it.
  Result<double> find();
  Result<double> find_without_target();
  Result<StepGoal> goal() const;
  Result<void> check_calibration(const Item& item) const;
  Result<double> bytes_of_others() const;
  double most_measured() const;
  Result<StepOutcome> try_step(double step);
  Result<double> measured() const;
  Error unreachable(double measured) const;

  const FrameCosts costs_;
  const unsigned threads_;
  Listener listener_;
  StepSearch search_;
  Progress progress_;  // of one trial
  std::vector<std::shared_ptr<Item>> items_;
  const FileBytes* file_bytes_ = nullptr;
  Target target_;
  double tried_step_ = 0;
  std::unique_ptr<Executor> executor_;  // goes first: its work uses all of the above
};

}  // namespace cfck::encode
