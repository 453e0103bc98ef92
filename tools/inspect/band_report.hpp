// The report of `bands` for a tensor of codec spectral.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cfck/record.hpp"
#include "spectral/spectral_description.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

struct BandReport {
  const StoredTensor* tensor = nullptr;
  const Record* record = nullptr;
  codec::SpectralDescription description;
  bool is_measured = false;  // errors are computed from the original, not from steps
};

// Formats some lines.
std::string band_report_text(const BandReport& report, const Console& console);
nlohmann::ordered_json band_report_json(const BandReport& report);

}  // namespace cfck::tools
