#include "base/forks/forks.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/zstd/frame.hpp"

namespace cfck::codec {
namespace {

class ZstdEncoder final : public EntropyEncoder {
 public:
  void encode(std::span<const SymbolStream> streams, std::vector<std::byte>& out) const override {
    write_literals_frame(streams, out);
  }
};

}  // namespace

const EntropyEncoder* find_entropy_encoder(EntropyId id) noexcept {
  static constinit MadeOnce<const ZstdEncoder> zstd;
  return id == EntropyId::kZstd ? &zstd.get([] { return ZstdEncoder(); }) : nullptr;
}

}  // namespace cfck::codec
