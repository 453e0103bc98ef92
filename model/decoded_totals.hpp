// What a conversion is to decode, summed up before it begins.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/archive.hpp"

namespace cfck::model {

// A small file may claim far more elements than it has, so that a conversion would fill the disk,
// or never end: all tensors of a file together keep to its ArchiveFile::max_decoded_bytes.
class DecodedTotals {
 public:
  explicit DecodedTotals(const TensorArchive& archive)
      : archive_(archive), total_bytes_(archive.files().size()) {}

  // Error: kLimitExceeded for a tensor that is too large with those before it. Bytes that are
  // stored raw do not count: they are in the file.
  Result<void> add(const ArchiveTensor& tensor);

 private:
  const TensorArchive& archive_;
  std::vector<std::uint64_t> total_bytes_;  // by file
};

}  // namespace cfck::model
