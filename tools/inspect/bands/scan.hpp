// Fills the report of `bands` from the stored chunks of a tensor.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/inspect/bands/report.hpp"
#include "tools/inspect/tensor_set.hpp"

namespace cfck::tools {

// Returns the record, if it has chunks of codec spectral of its own, or nullptr.
const Record* spectral_record(const StoredTensor& tensor);

// Decodes the chunks of report.tensor, whose record is report.record. With `original`, a tensor of
// the same dtype and shape, errors are measured. `add_done` gets the bytes of every chunk. Errors:
// those of reading either; "cancelled".
Result<void> describe_bands(const TensorSet& set, const TensorSet* reference_set,
                            const StoredTensor* original, BandReport& report,
                            const std::function<void(std::uint64_t n_bytes)>& add_done);

}  // namespace cfck::tools
