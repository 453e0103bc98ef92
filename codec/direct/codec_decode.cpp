#include <algorithm>

#include "base/cpu/float_environment.hpp"
#include "base/forks/forks.hpp"
#include "codec/direct/chunk/direct.hpp"
#include "codec/direct/chunk/scratch.hpp"
#include "codec/direct/codec.hpp"

namespace cfck::codec {
namespace {

// Chunks of a record come one after another: their preamble is parsed once.
Result<const DirectParameters*> parameters_of(const ChunkInfo& info, Scratch& scratch) {
  std::unique_ptr<DirectPreamble>& last = scratch.part<DirectScratch>().preamble;
  if (last != nullptr && std::ranges::equal(last->shape, info.shape) &&
      std::ranges::equal(last->bytes, info.preamble)) {
    return &last->parameters;
  }
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(info.shape));
  CFCK_TRY_ASSIGN(DirectParameters parameters, parse_parameters(geometry, info.preamble));
  last =
      std::make_unique<DirectPreamble>(DirectPreamble{Shape(info.shape.begin(), info.shape.end()),
                                                      {info.preamble.begin(), info.preamble.end()},
                                                      std::move(parameters)});
  return &last->parameters;
}

// Offsets of an error are relative to the start of a payload; this one is elsewhere.
Error in_preamble(Error error) {
  error.message = "the preamble is invalid: " + error.message;
  error.code = ErrorCode::kCorrupt;
  error.byte_offset = 0;
  return error;
}

}  // namespace

Result<std::uint32_t> DirectDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  if (info.preamble.empty()) {
    return direct_body_bytes(direct_info(info, nullptr), payload);
  }
  // A header depends on whether there is a field, not on what it says.
  DirectParameters parameters;
  if (has_scale_field(info.preamble)) {
    parameters.field.bands.push_back(0);
  }
  return direct_body_bytes(direct_info(info, &parameters), payload);
}

Result<void> DirectDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                   MutableBytes out) const {
  const DefaultFloatEnvironment environment;
  if (info.preamble.empty()) {
    return decode_direct(direct_info(info, nullptr), payload, scratch, out);
  }
  Result<const DirectParameters*> parameters = parameters_of(info, scratch);
  if (!parameters) {
    return in_preamble(std::move(parameters).error());
  }
  return decode_direct(direct_info(info, *parameters), payload, scratch, out);
}

const Decoder& direct_decoder() noexcept {
  static constinit MadeOnce<const DirectDecoder> decoder;
  return decoder.get([] { return DirectDecoder(); });
}

}  // namespace cfck::codec
