// A calibration as Python objects hold it.
#pragma once

#include <memory>

#include "cfck/calibration.hpp"

namespace cfck::python {

struct SharedCalibration {
  std::shared_ptr<const Calibration> calibration;
};

}  // namespace cfck::python
