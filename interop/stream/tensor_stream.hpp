// Writes the elements of many tensors one after another: for formats that store them raw.
#pragma once

#include <span>

#include "cfck/archive.hpp"
#include "cfck/io.hpp"

namespace cfck::interop {

struct StreamedTensor {
  const ArchiveTensor* tensor = nullptr;  // of the archive that is written
  ByteView before;                        // bytes that come first
};

// Writes each tensor, contiguous and row-major, behind the bytes that come before it, and `end`
// last. Decodes on `threads` threads; memory is bounded by the pieces in flight. `progress` counts
// decoded bytes of tensors. Errors: those of the archive and the sink, kCancelled.
Result<void> write_tensors(const TensorArchive& archive, std::span<const StreamedTensor> tensors,
                           ByteView end, ByteSink& sink, const ReadProgress& progress,
                           unsigned threads);

}  // namespace cfck::interop
