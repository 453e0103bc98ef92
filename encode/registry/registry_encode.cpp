#include "codec/codec.hpp"
#include "codec/direct/direct_codec.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossy.hpp"
#include "spectral/spectral_codec.hpp"

namespace cfck::codec {

const Encoder* find_encoder(CodecId id) noexcept {
  static const LosslessEncoder lossless;
  return id == CodecId::kLossless ? &lossless : nullptr;
}

const LossyEncoder* find_lossy_encoder(CodecId id) noexcept {
  static const DirectEncoder direct;
  static const SpectralEncoder spectral;
  switch (id) {
    case CodecId::kDirect:
      return &direct;
    case CodecId::kSpectral:
      return &spectral;
    default:
      return nullptr;
  }
}

}  // namespace cfck::codec
