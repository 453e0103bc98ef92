// The report of `bands` for a tensor of codec spectral.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cfck/record.hpp"
#include "spectral/description.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

struct BandReport {
  const StoredTensor* tensor = nullptr;
  const Record* record = nullptr;
  spectral::SpectralDescription description;
  bool is_measured = false;  // errors are computed from the original, not from steps
};

// A band, as it is shown.
struct BandFigures {
  std::string place;  // the frequency or position in the block: "0,1"
  std::uint64_t n_values = 0;
  double step = 0;  // root mean square
  double bits_per_weight = 0;
  double rms_error = 0;  // estimated, unless the errors are measured
  double rms = 0;        // of the original; 0 unless they are
};

// Chunks with the same parameters, as they are shown.
struct CodingFigures {
  std::string text;  // "dct, blocks of 3x3, 8 trellis states, ..."
  double step = 0;
  bool is_measured = false;
  std::vector<BandFigures> bands;
};
std::vector<CodingFigures> coding_figures(const BandReport& report);

// Formats some lines.
std::string band_report_text(const BandReport& report, const Console& console);
nlohmann::ordered_json band_report_json(const BandReport& report);

}  // namespace cfck::tools
