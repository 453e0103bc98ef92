// Finds the step at which tensors take so many bytes, or lose so much.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cfck/status.hpp"

namespace cfck::encode {

// Coarser steps take fewer bytes and lose more. Bytes or errors may rise and fall a
// little on the way: only what was tried counts.
struct StepGoal {
  enum class Measure : std::uint8_t { kBytes, kSquares };
  Measure measure = Measure::kBytes;
  double most = 0;  // to be kept
  double min = 0;   // near enough; not kept where steps do not reach it
  double first_step = 1;
  double finest_step = 0;
  double coarsest_step = 0;
  // Of bytes: what fine steps take more where they are halved, and what coarse ones
  // still take, about.
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

// The coarsest (of squares) or finest (of bytes) step that keeps `most`, as far as a
// few trials tell: it ends with the first that is not below `least`. Errors: those of
// `try_step`. No libm, nothing that depends on time: the same everywhere.
Result<FoundStep> find_step(const StepGoal& goal, const TryStep& try_step);

}  // namespace cfck::encode
