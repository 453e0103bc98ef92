// Lays out records of which only the sizes are known, to find the length of the file.
#pragma once

#include "encode/trial/choose_candidate.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {

// Lays out the record with that number in the index of `layout` as if it had these bytes. `plan` is
// the tensor's.
Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const encode::EncodePlan& plan,
                     const encode::RecordSize& size);

// Returns the length of the file that `layout`, of which nothing is known but sizes, and these
// metadata end. An index that will be compressed is counted with what the unknown numbers in it can
// take, and a little more.
Result<std::uint64_t> file_bytes_of(RecordLayout& layout, const MetadataFrame& metadata);

// Accepts everything and keeps nothing.
class DroppingSink final : public ByteSink {
 public:
  Result<void> write(ByteView) override { return {}; }
};

}  // namespace cfck::format
