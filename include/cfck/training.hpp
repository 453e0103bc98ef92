// Quantisation of weights while a model is trained, with the arithmetic of the decoder
// (docs/training.md). The Python package cfck.train is made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// Exponents of steps are integers: this many make an octave. Multiples of
// kTrainingStepsPerQuarter give exactly the steps of a file.
inline constexpr std::int32_t kTrainingStepsPerOctave = 256;
inline constexpr std::int32_t kTrainingStepsPerQuarter = kTrainingStepsPerOctave / 4;

// The step of a coefficient is `step` times 2^(e / 256), where e is the sum of the exponents of its
// band, its row and its column (spectral/spec.md, section 1). Bands of one Morton range share an
// entry. An empty vector is taken as 0 everywhere; the sum must be within ±2^17.
struct TrainingSteps {
  double step = 1;  // positive, finite
  std::span<const std::int32_t> bands = {};
  std::span<const std::int32_t> rows = {};
  std::span<const std::int32_t> columns = {};
};

// Derivatives by log2 of the steps, added up over the coefficients of each band range, row and
// column. Each has an entry for all of these.
struct TrainingStepGradients {
  std::span<float> bands;
  std::span<float> rows;
  std::span<float> columns;
};

// A model of the bits that a file takes for a tensor: a table of costs for each coefficient, and
// what comes on top.
struct TrainingRate {
  std::uint32_t family = 0;       // of frequency tables
  std::uint64_t stored_bits = 0;  // of the record with these weights and steps; 0: all are zero
};

// The quantiser of one tensor: F32 values in row-major order. It is immutable, and may be used by
// several threads at once. Results do not depend on the number of threads (0:
// default_thread_count()) nor on the CPU. Spans must have the lengths that the shape gives:
// kInvalidArgument.
class CFCK_API WeightQuantiser {
 public:
  // `block` has the sides of the blocks that are transformed, along the last axes, as
  // TensorOptions::block. Empty: convolution kernels; of other tensors nothing. Errors:
  // kInvalidArgument for shapes without values, and for blocks that do not exist; kUnsupported for
  // rows of more than 32,768 values in tensors of more than 65,536.
  static Result<WeightQuantiser> create(Shape shape, std::vector<std::uint8_t> block = {});

  std::uint64_t n_values() const noexcept;
  std::uint64_t n_rows() const noexcept;
  std::uint64_t n_columns() const noexcept;
  // Number of band ranges: entries of TrainingSteps::bands; 0 where nothing is transformed.
  std::uint64_t n_bands() const noexcept;
  // Sides of the blocks along the last axes, none longer than its axis; empty where nothing is
  // transformed.
  const std::vector<std::uint8_t>& block() const noexcept;
  // The band range of each band, by number; empty where nothing is transformed.
  const std::vector<std::uint32_t>& range_of_band() const noexcept;

  // Computes the values that a file decodes to where the coefficients of `weights` are rounded to
  // the nearest multiples of their steps.
  Result<void> quantise(std::span<const float> weights, const TrainingSteps& steps,
                        std::span<float> values, unsigned threads = 0) const;
  // Computes the derivatives by the steps from those by the values, as if rounding errors were
  // in proportion to the steps. With `n_examples` 0 they are those of the loss to first order
  // (learned step size quantisation: Esser et al. 2020). Else `value_gradients` are a mean over as
  // many examples, and derivatives those of half the squared errors times the curvature of the
  // loss, for which that many squared derivatives stand (empirical Fisher information): to first
  // order errors look harmless as soon as weights have adapted to them. The derivatives by the
  // weights are those by the values.
  Result<void> step_gradients(std::span<const float> weights, const TrainingSteps& steps,
                              std::span<const float> value_gradients, float n_examples,
                              const TrainingStepGradients& gradients, unsigned threads = 0) const;

  // Encodes the tensor with these steps, quarters of octaves rounded, and returns the size of its
  // record. `bins` receives the scale bin of each coefficient, in storage order; with the family it
  // says which frequency table codes it. NaN and infinities are refused: kInvalidArgument.
  Result<TrainingRate> fit_rate(std::span<const float> weights, const TrainingSteps& steps,
                                std::span<std::uint8_t> bins) const;
  // Adds up the bits of all coefficients in the tables of `family` and `bins`.
  Result<double> bits(std::span<const float> weights, const TrainingSteps& steps,
                      std::span<const std::uint8_t> bins, std::uint32_t family,
                      unsigned threads = 0) const;
  // Computes the derivatives of the bits, interpolated linearly between levels, times `scale`.
  Result<void> bit_gradients(std::span<const float> weights, const TrainingSteps& steps,
                             std::span<const std::uint8_t> bins, std::uint32_t family, float scale,
                             std::span<float> weight_gradients,
                             const TrainingStepGradients& gradients, unsigned threads = 0) const;

 private:
  struct CFCK_LOCAL Impl;
  explicit WeightQuantiser(std::shared_ptr<const Impl> impl);
  CFCK_LOCAL Result<void> check_bins(std::span<const std::uint8_t> bins,
                                     std::uint32_t family) const;

  std::shared_ptr<const Impl> impl_;
};

}  // namespace cfck
