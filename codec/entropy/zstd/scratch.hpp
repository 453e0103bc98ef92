// The contexts of libzstd that a thread keeps between chunks.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <memory>

namespace cfck::codec {

// Contexts are created at first use; nullptr if there is no memory.
class ZstdScratch {
 public:
  ZSTD_CCtx* compressor() {
    if (!compressor_) {
      compressor_.reset(ZSTD_createCCtx());
    }
    return compressor_.get();
  }

  ZSTD_DCtx* decompressor() {
    if (!decompressor_) {
      decompressor_.reset(ZSTD_createDCtx());
    }
    return decompressor_.get();
  }

 private:
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> compressor_{nullptr, &ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> decompressor_{nullptr, &ZSTD_freeDCtx};
};

}  // namespace cfck::codec
