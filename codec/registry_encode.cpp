#include "codec/codec.hpp"
#include "codec/direct/direct_codec.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

const Encoder* find_encoder(CodecId id) noexcept {
  static const LosslessEncoder lossless;
  return id == CodecId::kLossless ? &lossless : nullptr;
}

const LossyEncoder* find_lossy_encoder(CodecId id) noexcept {
  static const DirectEncoder direct;
  return id == CodecId::kDirect ? &direct : nullptr;
}

}  // namespace cfck::codec
