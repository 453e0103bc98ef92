#include "format/read/chunks/extent_fetcher.hpp"

#include <string>

#include "base/hashing/hashing.hpp"

namespace cfck::format {

Error damaged(const char* what, std::uint64_t offset_bytes) {
  return wrong_checksum(std::string(what) + " is damaged: its hash does not match")
      .at_byte(offset_bytes);
}

Result<void> ExtentFetcher::fetch(std::uint64_t offset_bytes, std::uint64_t hash, const char* what,
                                  Verify verify, MutableBytes out) const {
  CFCK_TRY(source_.read_at(offset_bytes, out));
  if (verify == Verify::kYes && tiled_hash64(out) != hash) {
    return damaged(what, offset_bytes);
  }
  return {};
}

Result<void> read_hashed(const ByteSource& source, std::uint64_t offset_bytes, std::uint64_t hash,
                         MutableBytes out) {
  return ExtentFetcher(source).fetch(offset_bytes, hash, "an extent", Verify::kYes, out);
}

}  // namespace cfck::format
