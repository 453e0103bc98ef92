// The elements of a dataset as a tensor has them.
#pragma once

#include "cfck/io.hpp"
#include "hdf5/archive/reader_link.hpp"
#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {

class ElementSink {
 public:
  virtual ~ElementSink() = default;
  // The element that all have which no piece brings; comes before all pieces, if it does.
  virtual Result<void> fill(ByteView element) = 0;
  // Elements of a part of a box, row-major.
  virtual Result<void> piece(std::uint64_t box, const Box& part, ByteView elements) = 0;
};

// Reads boxes of a dataset of an open file, whose bytes `source` has. Nothing of it comes from
// memory that was not written: elements of chunks are checked (hdf5/chunks), and all others are in
// the file. Needs a Library. Errors: kUnsupported for filters that are missing, kCorrupt,
// kTruncated, kLimitExceeded, those of `source` and `sink`.
Result<void> read_elements(hid_t file, const ByteSource& source, const JobRequest& request,
                           ElementSink& sink);

}  // namespace cfck::hdf5
