// Access to an open file for update, compact, repair and programs that describe files, beyond the
// public Reader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cfck/reader.hpp"
#include "format/container/container.hpp"

namespace cfck {

namespace format {
struct OpenFile;
struct BaseChain;
}  // namespace format

struct ReaderAccess {
  // Opens a file that other files, those of `chain`, are stored against.
  static Result<Reader> open(std::unique_ptr<const ByteSource> source, DecodeOptions options,
                             const format::BaseChain& chain);
  // Returns nullptr for a reader that was moved from, which the others must not be given.
  static const format::OpenFile* file_or_null(const Reader& reader);
  static const format::OpenFile& file(const Reader& reader);
  static const ByteSource& source(const Reader& reader);
  static const format::Tail& tail(const Reader& reader);
  static const format::Index& index(const Reader& reader);  // records as in reader.records()
  static const format::MetadataFrame& metadata(const Reader& reader);

  // Returns the offset of entry `chunk` (counted in Index::chunks) of `record`, a chunked one.
  static std::uint64_t chunk_offset(const Reader& reader, const format::StoredRecord& record,
                                    std::uint64_t chunk);
};

namespace format {

// Returns kInvalidArgument for a reader that was moved from.
Result<void> check_open(const Reader& reader);

// The first bytes of another source, as if it ended there: a file as it was when
// an older generation was written.
class PrefixSource final : public ByteSource {
 public:
  // Requires: n_bytes <= whole.size(). `whole` must outlive this object.
  PrefixSource(const ByteSource& whole, std::uint64_t n_bytes) : whole_(whole), n_bytes_(n_bytes) {}
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  ByteView mapped() const override;
  const std::byte* on_device(Device device) const override { return whole_.on_device(device); }
  std::string name() const override { return whole_.name(); }

 private:
  const ByteSource& whole_;
  std::uint64_t n_bytes_;
};

}  // namespace format
}  // namespace cfck
