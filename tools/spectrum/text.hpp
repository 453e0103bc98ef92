// Figures of tensors as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/output/console.hpp"
#include "tools/spectrum/tensor_spectrum.hpp"

namespace cfck::tools {

// A few lines for one tensor.
std::string spectrum_text(const TensorSpectrum& spectrum, const Console& console);
// One line for each of many tensors.
std::string spectrum_table(const std::vector<TensorSpectrum>& spectra);
nlohmann::ordered_json spectrum_json(const TensorSpectrum& spectrum);

// "0", "1", "2-3"
std::string band_name(const FrequencyBand& band);
// "8x8"
std::string block_text(const std::vector<std::uint32_t>& block);
double total_energy(const BandEnergy& energy);

}  // namespace cfck::tools
