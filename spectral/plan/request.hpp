// The request of a caller to the spectral codec (spectral/spec.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codec/lossy.hpp"
#include "spectral/layout/step_field.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

class SecondMoments;

// A constant that copies of a request share. Equal if the values are: tied tensors have arrays of
// their own that hold the same.
template <typename T>
struct SharedConstant : std::shared_ptr<const T> {
  SharedConstant() = default;
  template <typename U>
  SharedConstant(std::shared_ptr<U> shared) : std::shared_ptr<const T>(std::move(shared)) {}

  friend bool operator==(const SharedConstant& left, const SharedConstant& right) {
    return left.get() == right.get() || (left && right && *left == *right);
  }
};

// Steps are chosen by the caller: rate control knows the whole file. The codec uses this instead of
// LossyRecord::bound.
struct SpectralRequest final : CodecRequest {
  // Decoded coefficients are whole multiples of the step, or, with a field, of the step scaled by
  // the quarter-log2 steps of their place. Positive, finite; 0: it is still to be found.
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
  SharedConstant<SecondMoments> moments = {};
  // With error compensation: as many values as the tensor has, finite, which are quantised instead
  // of its own. Errors are relative to its own all the same.
  SharedConstant<std::vector<float>> corrected = {};

  // Only for finding the step.
  StepPreset preset = StepPreset::kFlat;
  std::optional<Quality> quality = std::nullopt;
  double step_scale = 1;  // as in OpenStep
  double sigma = 0;       // as in OpenStep
  // The step of a quality, of a refined calibration or of training. 0: there is none.
  double known_step = 0;
  bool has_target = false;

  // True if the step is to be found from the maximum error.
  bool follows_bound() const { return !has_target && known_step == 0; }

  bool operator==(const SpectralRequest&) const = default;
  bool equals(const CodecRequest& other) const override;
  std::optional<OpenStep> open_step() const override;
  SharedRequest with_step(double found) const override;
  std::uint64_t align_chunks(DType dtype, const Shape& shape,
                             std::uint64_t chunk_elems) const override;
};

// Returns nullptr where the record has no request, or that of another codec.
inline const SpectralRequest* spectral_request(const LossyRecord& record) {
  return dynamic_cast<const SpectralRequest*>(record.request.get());
}

}  // namespace cfck::spectral
