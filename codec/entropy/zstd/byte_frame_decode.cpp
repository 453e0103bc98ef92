#include "base/bytes.hpp"
#include "codec/device_plan.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/entropy/zstd/scratch.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {

Result<void> decompress_frame(ByteView frame, Scratch& scratch, MutableBytes out) {
  // libzstd may have been built to read frames of its first versions too.
  const bool is_zstd = frame.size() >= 4 && load<std::uint32_t>(frame.data()) == ZSTD_MAGICNUMBER;
  const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (!is_zstd || ZSTD_isError(frame_bytes)) {
    return corrupt("not a whole Zstd frame", 0);
  }
  if (frame_bytes != frame.size()) {
    return corrupt("bytes after the Zstd frame", frame_bytes);
  }
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != out.size()) {
    return corrupt("the Zstd frame does not hold as many bytes as the chunk needs", 0);
  }
  ZSTD_DCtx* const context = scratch.part<ZstdScratch>().decompressor();
  if (context == nullptr) {
    return codec_error(ErrorCode::kOutOfMemory, "no memory for a Zstd decoder", 0);
  }
  const std::size_t n =
      ZSTD_decompressDCtx(context, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(n) || n != out.size()) {
    return corrupt("damaged Zstd frame", 0);
  }
  return {};
}

Result<void> unpack_mask(const DevicePlan& plan, ByteView payload, Scratch& scratch,
                         MutableBytes out) {
  return decompress_frame(payload.subspan(plan.mask_at, plan.mask_frame_bytes), scratch, out);
}

}  // namespace cfck::codec
