// The sizes of records in a file, before anything is written.
#pragma once

#include <span>
#include <vector>

#include "encode/progress.hpp"
#include "encode/trial/choose_candidate.hpp"

namespace cfck::encode {

// Encodes tensors as a RecordEncoder does and discards the bytes.
Result<std::vector<RecordSize>> record_sizes(std::span<const EncodePlan> plans,
                                             const FrameCosts& costs, unsigned threads,
                                             Progress::Listener listener);

}  // namespace cfck::encode
