#include "codec/codec.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {

const Encoder* find_encoder(CodecId id) noexcept {
  static const LosslessEncoder lossless;
  return id == CodecId::kLossless ? &lossless : nullptr;
}

}  // namespace cfck::codec
