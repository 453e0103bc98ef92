// What somebody who saved a model with losses should be told.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/writer.hpp"

namespace cfck {

// Returns one sentence for each thing that is likely to be a mistake, without a full stop:
// - tensors, or all of them together, whose squared errors are above a tenth of their squares
//   (-10 dB), unless the options have a calibration, or learned steps of these tensors;
// - a psnr, which relates errors to the range of the values, where that left more than a hundredth
//   of the squares (-20 dB);
// - tensors of fewer than two dimensions that are lossy, if they have a name;
// - options that no tensor took, and rules that took none although other options did.
// `lossy` and `kept_lossless` are those of the WriteSummary, or of all files of a checkpoint, and
// `options` those that they were written with.
CFCK_API std::vector<std::string> loss_warnings(std::span<const LossyTensor> lossy,
                                                std::span<const KeptLossless> kept_lossless,
                                                const EncodeOptions& options);

}  // namespace cfck
