// Steps of the spectral codec that differ within a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Quarter-log2 steps to be added to a step: the sum of the entries for the band, the row and the
// column of a coefficient. An empty vector is taken as 0 everywhere.
struct StepField {
  std::vector<std::int16_t> bands;    // of the DCT of a convolution kernel
  std::vector<std::int16_t> rows;     // by index of axis 0
  std::vector<std::int16_t> columns;  // by index of axis 1

  bool empty() const { return bands.empty() && rows.empty() && columns.empty(); }
  bool operator==(const StepField&) const = default;
};

}  // namespace cfck::spectral
