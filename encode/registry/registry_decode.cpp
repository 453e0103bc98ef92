#include "codec/codec.hpp"
#include "codec/direct/direct_codec.hpp"
#include "codec/lossless/lossless.hpp"
#include "spectral/spectral_codec.hpp"

namespace cfck::codec {

const Decoder* find_decoder(CodecId id) noexcept {
  static const LosslessDecoder lossless;
  static const DirectDecoder direct;
  static const SpectralDecoder spectral;
  switch (id) {
    case CodecId::kLossless:
      return &lossless;
    case CodecId::kDirect:
      return &direct;
    case CodecId::kSpectral:
      return &spectral;
    default:
      return nullptr;
  }
}

}  // namespace cfck::codec
