#include "codec/codec.hpp"
#include "encode/registry/codec_list.hpp"

namespace cfck::codec {

#define CFCK_CODEC(id, name) const Decoder& name##_decoder() noexcept;
#include CFCK_CODEC_LIST
#undef CFCK_CODEC

const Decoder* find_decoder(CodecId id) noexcept {
  switch (static_cast<unsigned>(id)) {
#define CFCK_CODEC(number, name) \
  case number:                   \
    return &name##_decoder();
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
    default:
      return nullptr;
  }
}

}  // namespace cfck::codec
