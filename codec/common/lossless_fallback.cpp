#include "codec/common/lossless_fallback.hpp"

#include <algorithm>
#include <utility>

namespace cfck::codec {
namespace {

struct FallbackMemory {
  EncodedChunk chunk;
};

}  // namespace

bool may_be_smaller_lossless(ByteView values, const EncodedChunk& encoded) {
  return values.size() <= kSmallChunkBytes ||
         encoded.payload.size() > values.size() / kShareWithoutLossless;
}

Result<bool> replace_by_lossless(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                 MutableBytes decoded, EncodedChunk& encoded) {
  EncodedChunk& lossless = scratch.part<FallbackMemory>().chunk;
  CFCK_TRY(encode_lossless(info, values, scratch, lossless));
  if (lossless.payload.size() > encoded.payload.size()) {
    return false;
  }
  std::swap(encoded, lossless);
  std::copy(values.begin(), values.end(), decoded.begin());
  return true;
}

}  // namespace cfck::codec
