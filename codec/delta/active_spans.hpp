// The pauses of a chunk, as the encoder finds them (spec.md, section 6).
#pragma once

#include <vector>

#include "codec/delta/chunk_header.hpp"

namespace cfck::codec {

// Lists the spans between the pauses. `changed` has a mask for each block; n_changed of all units
// have changed.
void find_active_spans(const std::uint64_t* changed, std::uint64_t n_blocks,
                       std::uint64_t n_changed, std::vector<ActiveSpan>& active);

}  // namespace cfck::codec
