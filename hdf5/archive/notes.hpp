// What is said about the contents of an HDF5 file that cannot be kept.
#pragma once

#include <string>
#include <vector>

#include "hdf5/archive/listing.hpp"

namespace cfck::hdf5 {

// Returns a sentence about the attributes that cannot be kept, and one about such objects that are
// no tensors; none where there is nothing to say. With `only_tensors`, also one about each kind of
// what is left out though it could be kept.
std::vector<std::string> notes_of(const Listing& listing, bool only_tensors);

}  // namespace cfck::hdf5
