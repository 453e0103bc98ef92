#include "tools/convert/target_arguments.hpp"

#include <string>

#include "cfck/calibration.hpp"
#include "tools/convert/encode_options.hpp"

namespace cfck::tools {
namespace {

// Adds an option whose text `parse` understands.
template <class Parse, class To>
void add_parsed(CLI::App& app, const std::string& name, const Parse& parse, To& to,
                const std::string& text, const std::string& value) {
  const auto set = [name, parse, &to](const std::string& given) {
    const auto parsed = parse(given);
    if (!parsed) throw CLI::ValidationError(name, parsed.error().message);
    to = *parsed;
  };
  app.add_option_function<std::string>(name, set, text)->option_text(value);
}

Result<std::shared_ptr<const Calibration>> open_calibration(const std::string& path) {
  return Calibration::open(path);
}

}  // namespace

void add_targets(CLI::App& app, EncodeOptions& encode) {
  add_parsed(app, "--quality", parse_quality, encode.quality,
             "How much of the quality of a model to keep: near-lossless, high, balanced or small "
             "(docs/quality.md); better with --calibration",
             "WORD");
  add_parsed(app, "--bits-per-weight", parse_bits_per_weight, encode.bits_per_weight,
             "Maximum bits per weight, on average over all eligible tensors", "X");
  add_parsed(app, "--size", parse_size, encode.size,
             "Maximum size of the file, or of all .cfck files of a folder together: 60MB (10^6) or "
             "60MiB (2^20)",
             "SIZE");
  add_parsed(app, "--nmse", parse_nmse, encode.nmse,
             "Target for the normalised mean squared error (divided by the mean square of the "
             "values) over all eligible tensors: 0.01, or --nmse=-20dB",
             "X");
  add_parsed(app, "--psnr", parse_psnr, encode.psnr,
             "Target for the peak signal-to-noise ratio (the square of the value range divided by "
             "the mean squared error), such as 40dB",
             "X");
  add_parsed(app, "--calibration", open_calibration, encode.calibration,
             "A calibration of this model, made by cfck.calibrate in Python", "FILE");
  add_parsed(app, "--trellis-states", parse_trellis_states, encode.trellis_states,
             "Codec spectral, states of the trellis: 64 (fewest bytes; the default with --level "
             "archive), 8 (default), 4 or 1",
             "N");
  add_parsed(app, "--steps", parse_step_preset, encode.steps,
             "Codec spectral, how quantisation steps are assigned: model (relative to the values "
             "of each tensor, which suits weights; the default with --quality, --bits-per-weight "
             "and --size), flat (one step for all; the default with --nmse and --psnr), prior (a "
             "table for 3x3 kernels), calibrated (the default with --calibration) or feedback "
             "(calibrated, with error compensation; the default if cfck.refine made the "
             "calibration)",
             "WORD");
  add_parsed(app, "--block", parse_block, encode.block,
             "Codec spectral, sides of the transform blocks along the last axes, such as 8x8; 1 "
             "for no transform. Default: convolution kernels, or 64 rows of matrices, where that "
             "saves bits",
             "SIDES");
}

}  // namespace cfck::tools
