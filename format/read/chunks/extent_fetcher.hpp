// Bytes of a file and their hashes, apart from what they mean.
#pragma once

#include <cstdint>

#include "cfck/io.hpp"

namespace cfck::format {

enum class Verify : bool { kNo, kYes };

// Thread-safe, as its source is.
class ExtentFetcher {
 public:
  explicit ExtentFetcher(const ByteSource& source) : source_(source) {}

  // Fills `out` from `offset_bytes` and compares the tiled hash of what is there, unless told not
  // to. Errors: kChecksum, which calls the extent `what`; kIo, kTruncated.
  Result<void> fetch(std::uint64_t offset_bytes, std::uint64_t hash, const char* what,
                     Verify verify, MutableBytes out) const;

 private:
  const ByteSource& source_;
};

// kChecksum for what is called `what`.
Error damaged(const char* what, std::uint64_t offset_bytes);

// Reads the bytes of an extent and compares their tiled hash. Errors: kChecksum,
// kIo, kTruncated.
Result<void> read_hashed(const ByteSource& source, std::uint64_t offset_bytes, std::uint64_t hash,
                         MutableBytes out);

}  // namespace cfck::format
