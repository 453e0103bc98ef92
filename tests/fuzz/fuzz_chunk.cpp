// Decodes arbitrary bytes as a lossless chunk: one byte for the dtype (from 128 on with
// the entropy stage rans), two for the number of elements, the rest is the payload.
// Decoded values must also survive encoding and decoding again; all CPU levels do the
// same.
#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "tests/fuzz/every_level.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;
using cfck::test::at_every_level;
using cfck::test::require;

void check_round_trip(const ChunkInfo& info, const std::vector<std::byte>& values,
                      Scratch& scratch) {
  std::vector<std::byte> payload;
  require(at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
            EncodedChunk encoded;
            CFCK_TRY(find_encoder(CodecId::kLossless)->encode(info, values, scratch, encoded));
            out = std::move(encoded.payload);
            return {};
          }).has_value());
  std::vector<std::byte> again(values.size());
  require(find_decoder(CodecId::kLossless)->decode(info, payload, scratch, again).has_value() &&
          again == values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) {
    return 0;
  }
  ChunkInfo info;
  info.dtype = static_cast<DType>(1 + data[0] % 128 % 22);
  info.entropy = data[0] < 128 ? EntropyId::kZstd : EntropyId::kRans;
  info.n_elems = 1 + (data[1] | data[2] << 8) % 5000;
  const auto* const first = reinterpret_cast<const std::byte*>(data + 3);
  const std::vector<std::byte> payload(first, first + size - 3);  // nothing stands before it
  static Scratch scratch;
  const Decoder* const decoder = find_decoder(CodecId::kLossless);
  (void)decoder->body_bytes(info, payload);
  std::vector<std::byte> values((info.n_elems * bits_per_element(info.dtype) + 7) / 8);
  const auto decode = [&](std::vector<std::byte>& out) {
    return decoder->decode(info, payload, scratch, out);
  };
  if (at_every_level(values, decode)) {
    check_round_trip(info, values, scratch);
  }
  return 0;
}
