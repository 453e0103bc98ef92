// The request of a caller to the spectral codec (spectral/spec.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "codec/lossy.hpp"
#include "spectral/layout/step_field.hpp"

namespace cfck::codec {

class SecondMoments;

// Steps are chosen by the caller: rate control knows the whole file. The codec uses this instead of
// LossyRecord::bound.
struct SpectralRequest final : CodecRequest {
  // Decoded coefficients are whole multiples of the step, or, with a field, of the step scaled by
  // the quarter-log2 steps of their place. Positive, finite.
  double step = 0;
  // Trellis states: 1 (none), 4, 8 or 64.
  unsigned n_states = 8;
  // Bits are weighted against squared errors: a bit costs lambda * step^2. 0: errors only.
  double lambda = 0;
  // The maximum error of a value, if given; as in ErrorBound.
  std::optional<double> max_abs_error = std::nullopt;
  // With bands, kernels are transformed, whether that saves bits or not.
  StepField steps = {};
  // Sides of the blocks along the last axes, 1 to 64, at most 4096 values in all: those are
  // transformed, whether that saves bits or not. All 1: nothing is transformed. Sides longer than
  // their axis are cut to it. Empty, or more sides than axes: the kernel, or, of a matrix, 64 rows,
  // where that saves bits. Blocks that chunks cut are left out.
  std::vector<std::uint8_t> block = {};
  // The bands of `steps` are those of `block`, not those of the kernel.
  bool has_block_bands = false;
  // Second moments of the inputs of each row, channel by channel, positions of the kernel within.
  // With them errors are compensated and steps follow from them instead of from `steps`, where the
  // tensor has two axes or kernels and at most 2^24 values, chunks are whole rows, and the sizes
  // agree. Then `lambda` is taken as 0, and states are at most 8.
  std::shared_ptr<const SecondMoments> moments = nullptr;
  // With error compensation: as many values as the tensor has, finite, which are quantised instead
  // of its own. Errors are relative to its own all the same.
  std::shared_ptr<const std::vector<float>> corrected = nullptr;

  bool operator==(const SpectralRequest&) const = default;
};

// Returns nullptr where the record has no request, or that of another codec.
inline const SpectralRequest* spectral_request(const LossyRecord& record) {
  return dynamic_cast<const SpectralRequest*>(record.request.get());
}

}  // namespace cfck::codec
