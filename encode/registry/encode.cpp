#include "codec/registration.hpp"
#include "encode/registry/codec_list.hpp"

namespace cfck::codec {

#define CFCK_CODEC(id, name) CodecEncoders name##_encoders() noexcept;
#include CFCK_CODEC_LIST
#undef CFCK_CODEC

namespace {

constexpr CodecId kIds[] = {
#define CFCK_CODEC(id, name) static_cast<CodecId>(id),
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
};

CodecEncoders encoders_of(CodecId id) noexcept {
  switch (static_cast<unsigned>(id)) {
#define CFCK_CODEC(number, name) \
  case number:                   \
    return name##_encoders();
#include CFCK_CODEC_LIST
#undef CFCK_CODEC
    default:
      return {};
  }
}

}  // namespace

const Encoder* find_encoder(CodecId id) noexcept { return encoders_of(id).exact; }

const LossyEncoder* find_lossy_encoder(CodecId id) noexcept { return encoders_of(id).lossy; }

std::span<const CodecId> codec_ids() noexcept { return kIds; }

}  // namespace cfck::codec
