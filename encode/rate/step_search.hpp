// Finds the step at which tensors reach a number of bytes or an error.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cfck/status.hpp"

namespace cfck::encode {

// Coarser steps take fewer bytes and lose more. Bytes or errors may rise and fall a little on the
// way: only trials are decisive.
struct StepGoal {
  enum class Measure : std::uint8_t { kBytes, kSquares };
  Measure measure = Measure::kBytes;
  double most = 0;  // the limit to be kept
  double min = 0;   // near enough; not kept where steps do not reach it
  double first_step = 1;
  double finest_step = 0;
  double coarsest_step = 0;
  // For bytes: the increase of fine steps when they are halved, and approximately what coarse ones
  // still take.
  double bytes_per_octave = 1;
  double min_bytes = 0;
};

struct StepOutcome {
  double measured = 0;
  bool is_finest = false;  // finer steps change nothing more
};
using TryStep = std::function<Result<StepOutcome>(double step)>;

struct FoundStep {
  double step = 0;
  double measured = 0;
  bool keeps = false;  // `most`; else this is as near as steps come
};

// Returns the coarsest (for squares) or finest (for bytes) step that keeps `most`, as far as a few
// trials show: it ends with the first that is not below `min`. Errors: those of `try_step`. No
// libm, nothing that depends on time: equal results everywhere.
Result<FoundStep> find_step(const StepGoal& goal, const TryStep& try_step);

}  // namespace cfck::encode
