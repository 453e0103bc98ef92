// The metadata and the numbers of a calibration's file.
#pragma once

#include "cfck/calibration.hpp"
#include "cfck/reader.hpp"

namespace cfck::calibration {

// Everything but the arrays. Errors: those of reading; kInvalidArgument for a file that is no
// calibration, kUnsupported for one of a newer version, kCorrupt for one whose parts do not fit
// each other.
Result<Measurements> read_measurements(const Reader& reader);

}  // namespace cfck::calibration
