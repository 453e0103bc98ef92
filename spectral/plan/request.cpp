#include "spectral/plan/request.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "spectral/feedback/second_moments.hpp"
#include "spectral/plan/block_choice.hpp"
#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {
namespace {

// The steps to be tried with a maximum error and no target, relative to that error. Values that are
// not transformed never have an error above half a step; a few of those that are have to be
// corrected. Trellis states lower the mean square at the cost of the maximum.
constexpr double kStepsOfBound[] = {2 * (1 - 0x1p-20), 1.6, 1.25, 1};
constexpr unsigned kStatesOfBound = 1;
// The maximum of lanes in a chunk: with feedback, rows keep to one each.
constexpr std::uint64_t kRowsTogether = 128;

// Number of rows that no chunk should cut.
std::uint64_t rows_together(const SpectralRequest& request, const Shape& shape) {
  const BlockSides sides = chosen_block(shape, request.block);
  if (asks_for_block(shape, request.block) && sides != kernel_block(shape)) {
    return block_side(sides, shape.size(), 0);
  }
  if (request.moments) {
    return kRowsTogether;
  }
  return shape.size() == 2 ? kMaxBlockSide : 1;
}

}  // namespace

bool SpectralRequest::equals(const CodecRequest& other) const {
  const auto* const spectral = dynamic_cast<const SpectralRequest*>(&other);
  return spectral != nullptr && *spectral == *this;
}

std::optional<OpenStep> SpectralRequest::open_step() const {
  if (step > 0) {
    return std::nullopt;
  }
  OpenStep open{known_step, {}, step_scale, sigma};
  if (follows_bound()) {
    open.of_bound = kStepsOfBound;
  }
  const bool is_calibrated = preset >= StepPreset::kCalibrated;
  open.follows_roles = preset == StepPreset::kModel || (quality && is_calibrated && sigma == 0);
  return open;
}

SharedRequest SpectralRequest::with_step(double found) const {
  auto request = std::make_shared<SpectralRequest>(*this);
  request->step = found;
  // A maximum error applies to each value by itself.
  if (follows_bound()) {
    request->n_states = kStatesOfBound;
    request->lambda = 0;
    request->moments.reset();
    request->corrected.reset();
  }
  return request;
}

// Rows of which as many as a chunk's lanes are searched side by side, or that are transformed
// together, stay together, and none are left over.
std::uint64_t SpectralRequest::align_chunks(DType dtype, const Shape& shape,
                                            std::uint64_t chunk_elems) const {
  if (shape.size() < 2) {
    return chunk_elems;
  }
  const std::uint64_t row_elems =
      std::accumulate(shape.begin() + 1, shape.end(), std::uint64_t{1}, std::multiplies<>());
  const std::uint64_t n_elems = shape[0] * row_elems;
  const std::uint64_t n_rows = chunk_elems / row_elems;
  const std::uint64_t n_together = rows_together(*this, shape);
  if (n_elems <= chunk_elems || n_rows == 0 || n_together == 1) {
    return chunk_elems;
  }
  if (n_rows >= n_together) {
    return row_elems * (n_rows - n_rows % n_together);
  }
  if (block.empty()) {
    return row_elems * std::bit_floor(n_rows);
  }
  if (row_elems * n_together <= kMaxChunkBytes * 8 / bits_per_element(dtype)) {
    return std::min(row_elems * n_together, n_elems);
  }
  return chunk_elems;
}

}  // namespace cfck::spectral
