// Decodes arbitrary bytes as a lossless chunk: one byte for the dtype, two for the
// number of elements, the rest is the payload. What decodes must also encode and
// decode again to the same values.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "codec/codec.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

void check_round_trip(const ChunkInfo& info, const std::vector<std::byte>& values,
                      Scratch& scratch) {
  EncodedChunk encoded;
  std::vector<std::byte> again(values.size());
  if (!find_encoder(CodecId::kLossless)->encode(info, values, scratch, encoded) ||
      !find_decoder(CodecId::kLossless)->decode(info, encoded.payload, scratch, again) ||
      again != values) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) {
    return 0;
  }
  ChunkInfo info;
  info.dtype = static_cast<DType>(1 + data[0] % 22);
  info.entropy = EntropyId::kZstd;
  info.n_elems = 1 + (data[1] | data[2] << 8) % 5000;
  const ByteView payload(reinterpret_cast<const std::byte*>(data + 3), size - 3);
  static Scratch scratch;
  const Decoder* const decoder = find_decoder(CodecId::kLossless);
  (void)decoder->body_bytes(info, payload);
  std::vector<std::byte> values((info.n_elems * bits_per_element(info.dtype) + 7) / 8);
  if (decoder->decode(info, payload, scratch, values)) {
    check_round_trip(info, values, scratch);
  }
  return 0;
}
