#include "codec/scratch.hpp"

#include "codec/errors.hpp"

namespace cfck::codec {

Scratch::Scratch() : impl_(std::make_unique<Impl>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

RansEncodeTables& Scratch::Impl::encode_tables() {
  if (!encode_tables_) {
    encode_tables_ = std::make_unique<RansEncodeTables>();
  }
  return *encode_tables_;
}

ZSTD_CCtx* Scratch::Impl::compressor() {
  if (!compressor_) {
    compressor_.reset(ZSTD_createCCtx());
  }
  return compressor_.get();
}

ZSTD_DCtx* Scratch::Impl::decompressor() {
  if (!decompressor_) {
    decompressor_.reset(ZSTD_createDCtx());
  }
  return decompressor_.get();
}

Result<void> decompress_frame(ByteView frame, Scratch& scratch, MutableBytes out) {
  const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes)) {
    return corrupt("not a whole Zstd frame", 0);
  }
  if (frame_bytes != frame.size()) {
    return corrupt("bytes after the Zstd frame", frame_bytes);
  }
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != out.size()) {
    return corrupt("the Zstd frame does not hold as many bytes as the chunk needs", 0);
  }
  ZSTD_DCtx* const context = scratch.impl().decompressor();
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

}  // namespace cfck::codec
