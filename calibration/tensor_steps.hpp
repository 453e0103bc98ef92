// The steps of each tensor that follow from measurements.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "calibration/arrays.hpp"

namespace cfck::calibration {

using StepsByName = std::map<std::string, CalibratedSteps, std::less<>>;

// `arrays` are those of `measured`. Errors: those of reading; kCorrupt for measurements that do
// not fit each other.
Result<StepsByName> tensor_steps(const Measurements& measured, const Arrays& arrays);

// Whether the inputs of a model were real ones, not generated.
bool is_of_data(const Measurements& measured);

}  // namespace cfck::calibration
