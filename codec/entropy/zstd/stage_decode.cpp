#include "base/forks/forks.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"

namespace cfck::codec {
namespace {

class ZstdDecoder final : public EntropyDecoder {
 public:
  Result<void> decode(ByteView coded, std::span<const std::size_t> lengths, Scratch& scratch,
                      std::span<std::uint8_t> symbols) const override {
    (void)lengths;  // the streams follow one another in the frame
    return decompress_frame(coded, scratch,
                            {reinterpret_cast<std::byte*>(symbols.data()), symbols.size()});
  }
};

}  // namespace

bool has_entropy_stage(EntropyId id) noexcept {
  return id == EntropyId::kZstd || id == EntropyId::kRans;
}

const EntropyDecoder* find_entropy_decoder(EntropyId id) noexcept {
  static constinit MadeOnce<const ZstdDecoder> zstd;
  return id == EntropyId::kZstd ? &zstd.get([] { return ZstdDecoder(); }) : nullptr;
}

}  // namespace cfck::codec
