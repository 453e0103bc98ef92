// Writes a zip file of stored members, in one pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cfck/io.hpp"

namespace cfck::interop {

struct ZipItem {
  std::string name;           // valid UTF-8
  std::uint64_t n_bytes = 0;  // of the content
};

// Takes the contents of all members, one after another. Contents begin at multiples of 64 bytes.
// Since checksums are known last, they follow the contents (APPNOTE.TXT of PKWARE, section 4.3.9).
// Times are those of 1980-01-01, so that equal contents give equal files.
class ZipSink final : public ByteSink {
 public:
  // `out` must outlive the sink. Requires: names differ and have at most 65535 bytes.
  ZipSink(ByteSink& out, std::vector<ZipItem> items);

  // Requires: no more bytes than the members have.
  Result<void> write(ByteView bytes) override;
  // Writes the directory. Requires: the contents of all members were written.
  Result<void> finish();
  // Bytes of the file up to now.
  std::uint64_t file_bytes() const { return at_; }

 private:
  struct Written {
    std::uint64_t local_bytes = 0;  // where its header starts
    std::uint32_t crc = 0;
  };

  Result<void> put(ByteView bytes);
  Result<void> begin_member();
  Result<void> end_member();
  // Begins members, and ends those that are complete.
  Result<void> advance();

  ByteSink& out_;
  const std::vector<ZipItem> items_;
  std::vector<Written> written_;
  bool in_member_ = false;
  std::uint64_t left_bytes_ = 0;  // of the member that is being written
  std::uint64_t at_ = 0;
};

}  // namespace cfck::interop
