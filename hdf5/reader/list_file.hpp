// The objects of an HDF5 file.
#pragma once

#include "hdf5/archive/listing.hpp"
#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {

// Walks through all objects of an open file of `file_bytes`; needs a Library. Errors: kUnsupported
// for links and datasets that lead to other files, kCorrupt, kTruncated, kLimitExceeded.
Result<Listing> list_file(hid_t file, std::uint64_t file_bytes);

}  // namespace cfck::hdf5
