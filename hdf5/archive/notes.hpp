// What is said about the contents of an HDF5 file that cannot be kept.
#pragma once

#include <string>
#include <vector>

#include "hdf5/archive/listing.hpp"

namespace cfck::hdf5 {

// Returns a sentence about the attributes that are left out, and one about the objects that are no
// tensors and cannot be kept either; none where there is nothing to say.
std::vector<std::string> notes_of(const Listing& listing);

}  // namespace cfck::hdf5
