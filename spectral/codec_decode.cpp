#include <algorithm>

#include "base/cpu/float_environment.hpp"
#include "base/forks/forks.hpp"
#include "spectral/chunk/spectral.hpp"
#include "spectral/codec.hpp"
#include "spectral/layout/scratch.hpp"

namespace cfck::spectral {
namespace {

// Chunks of a record come one after another: their preamble is parsed once.
Result<const SpectralParameters*> parameters_of(const ChunkInfo& info, Scratch& scratch) {
  if (info.preamble.empty()) {
    return nullptr;
  }
  std::unique_ptr<SpectralPreamble>& last = scratch.part<SpectralScratch>().preamble;
  if (last != nullptr && std::ranges::equal(last->shape, info.shape) &&
      std::ranges::equal(last->bytes, info.preamble)) {
    return &last->parameters;
  }
  Result<SpectralParameters> parameters = parse_spectral_parameters(info.shape, info.preamble);
  if (!parameters) {
    // Offsets of an error are relative to the start of a payload; this one is elsewhere.
    Error error = std::move(parameters).error();
    error.message = "the preamble is invalid: " + error.message;
    error.code = ErrorCode::kCorrupt;
    error.byte_offset = 0;
    return error;
  }
  last = std::make_unique<SpectralPreamble>(
      SpectralPreamble{Shape(info.shape.begin(), info.shape.end()),
                       {info.preamble.begin(), info.preamble.end()},
                       std::move(*parameters)});
  return &last->parameters;
}

}  // namespace

Result<std::uint32_t> SpectralDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  // A header depends on the order, not on what the fields say.
  SpectralParameters parameters;
  if (!info.preamble.empty()) {
    parameters.order = order_of_preamble(info.preamble);
  }
  return spectral_body_bytes(spectral_info(info, info.preamble.empty() ? nullptr : &parameters),
                             payload);
}

Result<void> SpectralDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                     MutableBytes out) const {
  const DefaultFloatEnvironment environment;
  CFCK_TRY_ASSIGN(const SpectralParameters* const parameters, parameters_of(info, scratch));
  return decode_spectral(spectral_info(info, parameters), payload, scratch, out);
}

}  // namespace cfck::spectral

namespace cfck::codec {

const Decoder& spectral_decoder() noexcept {
  static constinit MadeOnce<const spectral::SpectralDecoder> decoder;
  return decoder.get([] { return spectral::SpectralDecoder(); });
}

}  // namespace cfck::codec
