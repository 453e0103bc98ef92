// The steps of all coefficients of a tensor, as sums of exponents.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/training.hpp"
#include "spectral/layout/step_field.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/training/weight_layout.hpp"

namespace cfck::spectral {

class WeightSteps {
 public:
  // Errors: kInvalidArgument for a step that is none, vectors of another length, and sums beyond
  // the limit.
  static Result<WeightSteps> create(const WeightLayout& layout, const TrainingSteps& steps);

  // Writes the steps of `n` values of the row of blocks.
  void write(std::uint64_t row, std::size_t n, float* steps) const;

 private:
  std::vector<float> table_;           // by sum of exponents less the least of them
  std::vector<std::int32_t> offsets_;  // by position in the row of blocks
  std::vector<std::int32_t> rows_;     // at least 0; empty: 0
};

// Rounds exponents to whole quarters of octaves.
std::vector<std::int16_t> nearest_quarters(std::span<const std::int32_t> exponents);

// Returns the nearest steps of a file: quarters of octaves by band, row and column.
StepField nearest_step_field(const WeightLayout& layout, const TrainingSteps& steps);

}  // namespace cfck::spectral
