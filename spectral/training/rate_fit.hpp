// The size of a tensor's record, and the frequency tables that code it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cfck/training.hpp"
#include "spectral/layout/step_field.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/training/weight_layout.hpp"

namespace cfck::spectral {

// Encodes values with the steps of `field`, and writes the scale bin of each coefficient. Errors:
// those of the encoder.
Result<TrainingRate> fit_record_rate(const WeightLayout& layout, std::span<const float> values,
                                     double step, const StepField& field,
                                     std::span<std::uint8_t> bins);

}  // namespace cfck::spectral
