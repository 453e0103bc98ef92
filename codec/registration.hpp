// The two halves of a codec in the registry (encode/registry/codecs.inc). Codec `name` defines, in
// namespace cfck::codec,
//
//   const Decoder& name_decoder() noexcept;    in the half that decoding needs
//   CodecEncoders name_encoders() noexcept;    in the half that encoding needs beside it
#pragma once

#include "codec/codec.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

// One of the two, the other is nullptr; or both, where records of a codec may lose nothing.
struct CodecEncoders {
  const Encoder* exact = nullptr;
  const LossyEncoder* lossy = nullptr;
};

}  // namespace cfck::codec
