// Chooses the parameters of a record (spectral/spec.md, section 7).
#pragma once

#include "codec/lossy.hpp"
#include "spectral/chunk/spectral.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

struct SpectralPlan {
  SpectralParameters parameters;
  bool is_inline = false;         // there is one chunk, which stores the parameters
  bool prefers_lossless = false;  // the lossless codec takes no more bytes
};

// Requires: the record has values and a request. Errors: kInvalidArgument, those of `read`.
Result<SpectralPlan> plan_spectral(const LossyRecord& record, const ReadValues& read,
                                   Scratch& scratch);

}  // namespace cfck::spectral
