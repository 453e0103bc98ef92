#include "format/write/file_end.hpp"

#include <utility>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/version.hpp"
#include "format/container/index/compressed_index.hpp"

namespace cfck::format {

Result<std::uint64_t> write_end(RecordLayout& layout, const MetadataFrame& metadata,
                                std::uint64_t generation, std::uint64_t previous_file_bytes) {
  CFCK_TRY_ASSIGN(const std::vector<std::byte> metadata_frame, encode_metadata(metadata));
  CFCK_TRY_ASSIGN(std::vector<std::byte> tables, encode_index(layout.index()));
  CFCK_TRY_ASSIGN(const IndexFrame index_frame, compress_index(std::move(tables)));
  Tail tail;
  tail.major = kFormatMajor;
  tail.minor = kFormatMinor;
  tail.required_features =
      index_frame.required_features | (needs_base(layout.index()) ? kHasBase : 0);
  tail.generation = generation;
  tail.previous_file_bytes = previous_file_bytes;
  tail.metadata = {layout.offset_bytes(), metadata_frame.size()};
  tail.metadata_hash = hash128(metadata_frame);
  CFCK_TRY(layout.write(metadata_frame));
  tail.index = {layout.offset_bytes(), index_frame.bytes.size()};
  tail.index_hash = hash128(index_frame.bytes);
  CFCK_TRY(layout.write(index_frame.bytes));
  tail.file_bytes = layout.offset_bytes() + kTailBytes;
  CFCK_TRY(layout.write(encode_tail(tail)));
  return tail.file_bytes;
}

}  // namespace cfck::format
