// Lays out records of which only the sizes are known, to find the length of the file.
#pragma once

#include "encode/choose_candidate.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {

// Lays out the record with that number in the index of `layout` as if it had these
// bytes.
Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const ChunkGeometry& geometry,
                     const encode::RecordSize& size);

// Accepts everything and keeps nothing.
class DroppingSink final : public ByteSink {
 public:
  Result<void> write(ByteView) override { return {}; }
};

}  // namespace cfck::format
