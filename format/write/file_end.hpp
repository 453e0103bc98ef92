// The last three frames of a generation: META, INDX, TAIL.
#pragma once

#include <cstdint>

#include "cfck/status.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {

// Writes them after what `layout` has written. Returns the length of the file.
Result<std::uint64_t> write_end(RecordLayout& layout, const MetadataFrame& metadata,
                                std::uint64_t generation, std::uint64_t previous_file_bytes);

}  // namespace cfck::format
