#include "codec/codec.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {

const Decoder* find_decoder(CodecId id) noexcept {
  static const LosslessDecoder lossless;
  return id == CodecId::kLossless ? &lossless : nullptr;
}

}  // namespace cfck::codec
