// What the filter has to know of a dataset that is created, asked of the libhdf5 that calls.
#pragma once

#include <vector>

#include "hdf5/filter/calling_library.hpp"
#include "hdf5/filter/values.hpp"

namespace cfck::hdf5 {

struct Dataset {
  std::vector<unsigned> words;  // the filter's client data as it stands
  FilterRequest request;
  ChunkValues values;
};

// Reads the properties of a dataset, and checks that what they ask of the filter can be done.
// libhdf5 asks not only when a dataset is created, but also before the first write to one that was
// opened; of such a one H5Pget_fill_value() crashes in HDF5 1.10, so the fill value is left out.
// Integers and anything else without a float type is lossless only; types that cfck
// does not have, and values that other filters change first, are taken as bytes. Errors:
// kInvalidArgument, kUnsupported.
Result<Dataset> describe(const Hdf5Functions& hdf5, Id creation, Id type);
// Describes a dataset that is being created: also reads its fill value, and refuses requests that
// only older plug-ins accepted.
Result<Dataset> describe_new(const Hdf5Functions& hdf5, Id creation, Id type);

}  // namespace cfck::hdf5
