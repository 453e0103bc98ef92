// Attributes, and datasets that are no tensors, in the JSON of hdf5/archive/values.hpp.
#pragma once

#include "hdf5/archive/values.hpp"

namespace cfck::hdf5 {

// All of these need a Library.

// Returns the shape of a dataspace as values have it: null, [] or sizes. Error: kCorrupt.
Result<Json> shape_of(hid_t space);

// Reads the attributes of an object, in order, as {"name", ...}. Those of types that cannot be kept
// are left out, and their names added to `left_out`. Errors: kLimitExceeded, those of libhdf5.
Result<Json> read_attributes(hid_t object, bool by_creation, ValueBudget& budget,
                             std::vector<std::string>& left_out);
// Returns the value of a dataset of a file of `file_bytes`; null if its type cannot be kept.
// Errors: those of ChunkedDataset, kLimitExceeded.
Result<Json> read_value(hid_t dataset, std::uint64_t file_bytes, ValueBudget& budget);

}  // namespace cfck::hdf5
