// A listing as text, for another process.
#pragma once

#include <string>

#include "hdf5/archive/listing.hpp"

namespace cfck::hdf5 {

std::string text_of(const Listing& listing);
// Requires: text that text_of() made.
Listing listing_of(std::string_view text);

}  // namespace cfck::hdf5
