// How many values of a file differ from those of its base.
#pragma once

#include "tools/input/reading_options.hpp"
#include "tools/output/listing.hpp"

namespace cfck::tools {

// Fills in TensorRow::n_changed for all rows that are stored against the base of the file, which is
// decoded with it. `listing` is that of list_tensors(). Errors: kMissingBase, those of reading;
// "cancelled" when a signal has arrived.
Result<void> count_changes(const ReadingOptions& reading, bool show_progress, Listing& listing);

}  // namespace cfck::tools
