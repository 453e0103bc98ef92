#include "codec/codec.hpp"
#include "codec/direct/direct_codec.hpp"
#include "codec/lossless/lossless.hpp"

namespace cfck::codec {

const Decoder* find_decoder(CodecId id) noexcept {
  static const LosslessDecoder lossless;
  static const DirectDecoder direct;
  switch (id) {
    case CodecId::kLossless:
      return &lossless;
    case CodecId::kDirect:
      return &direct;
    default:
      return nullptr;
  }
}

}  // namespace cfck::codec
