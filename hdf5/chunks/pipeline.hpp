// The filters that the chunks of a dataset went through.
#pragma once

#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {

class Pipeline {
 public:
  // Reads the filters of a dataset from its creation properties. Errors: those of libhdf5.
  static Result<Pipeline> of(hid_t creation_properties);

  bool empty() const { return filters_.empty(); }

  // Returns the elements of a chunk, `chunk_bytes` of them, from its bytes in the file. Filters
  // whose bit in `mask` is set were left out for this chunk. Errors: kCorrupt where a filter, or
  // all of them, give another number of bytes than a chunk has; kUnsupported, with its name, for a
  // filter that is missing; kLimitExceeded.
  Result<Buffer> decode(Buffer stored, unsigned mask, std::uint64_t chunk_bytes) const;

 private:
  std::vector<Filter> filters_;  // in the order of writing
};

}  // namespace cfck::hdf5
