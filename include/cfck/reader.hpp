// Reads a .cfck file: the index at once, tensors when asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/owned_tensor.hpp"
#include "cfck/record.hpp"

namespace cfck {

// One tensor to read, whole, into memory of the caller.
struct ReadRequest {
  const Record* record = nullptr;  // of this reader, or a copy of one
  MutableBytes out;                // exactly record->decoded_bytes
  Device device = {};              // where `out` is; kUnsupported for any but the host
};

// Called after each chunk, one call at a time, possibly from another thread.
// Returning false cancels: the call in progress fails with kCancelled.
using ReadProgress = std::function<bool(std::uint64_t done_bytes, std::string_view name)>;

struct VerifyReport {
  std::uint64_t n_records = 0;      // checked
  std::uint64_t checked_bytes = 0;  // of the file
  std::vector<Error> problems;      // empty: the file is as it was written
};

enum class VerifyLevel : std::uint8_t {
  kHashes,  // every frame and every hash; decodes nothing
  kDeep,    // also decodes every record and compares the digest
};

// All const functions may be called concurrently. A reader that was moved from has no records, no
// metadata and 0 bytes, and functions that return a Result give kInvalidArgument.
//
// Functions that take a Record take those of this reader, and copies of them. kInvalidArgument for
// any other.
class CFCK_API Reader {
 public:
  // Reads and checks tail, index and metadata; no tensor data. `source` must
  // outlive the reader. Errors: kTruncated, kCorrupt, kChecksum, kUnsupported,
  // kLimitExceeded, kIo. A file cut off in an append says which generation is
  // still whole and how to get it back.
  static Result<Reader> open(const ByteSource& source, DecodeOptions options = {});
  // Opens a source that the reader then owns. Errors: also kInvalidArgument for nullptr.
  static Result<Reader> open(std::unique_ptr<const ByteSource> source, DecodeOptions options = {});
  // Opens the file at `path` as open_file() does, and keeps it open. Errors: also those of that.
  static Result<Reader> open(const std::string& path, DecodeOptions options = {},
                             ReadMode mode = ReadMode::kPread, FileSystem& files = system_files());
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  // Records in file order, hidden ones included.
  std::span<const Record> records() const;
  // Returns the named record, or nullptr.
  const Record* find(std::string_view name) const;
  const Metadata& metadata() const;
  std::span<const Attachment> attachments() const;
  std::uint64_t file_bytes() const;
  std::uint64_t generation() const;
  // Bytes of dead frames, which compact() would free. 0 if generation() is 0.
  std::uint64_t dead_bytes() const;
  // True if records are stored against a base. Opening the file looks for it, but only reading
  // these records needs it: kMissingBase, kLimitExceeded and errors of opening it come then.
  bool needs_base() const;
  // The name of the file that has the base; empty for a file without one, and for one that was
  // written against tensors in memory.
  std::string_view base_name() const;
  // The number of bases that are open to read this file: its base, the base of that, and so on. 0
  // for a file that stands alone, and where the base is missing.
  std::uint64_t chain_length() const;
  // Finds out whether the base is there and has the values that each record is stored against. With
  // a base in memory this reads all of them once.
  Result<void> check_base() const;
  // Version of the format the file was written in, as "major.minor".
  std::string format_version() const;

  // kLimitExceeded, with `name`, if one call may not return this many bytes: ask before you
  // allocate memory for what a file claims.
  Result<void> check_decoded_bytes(std::uint64_t n_bytes, std::string_view name = {}) const;
  // Decodes a whole record. Aliases are gathered into contiguous form. Errors:
  // kInvalidArgument if `out` has the wrong size or overlaps a file in memory, or a tensor of the
  // base other than the whole of the one that is decoded with it, kUnsupported if codec, entropy
  // stage or dtype are of a newer version, kChecksum, kCorrupt, kIo, kLimitExceeded. On error the
  // contents of `out` are unspecified.
  Result<void> read(const Record& record, MutableBytes out) const;
  // Decodes a record into memory of its own, allocated once the size was checked against the
  // limits. Errors: also kOutOfMemory, and kNotFound for a name that the file does not have.
  Result<OwnedTensor> read(const Record& record) const;
  Result<OwnedTensor> read(std::string_view name) const;
  // Reads several records at once, chunks in parallel over all of them. Errors are those of read().
  Result<void> read_many(std::span<const ReadRequest> requests,
                         const ReadProgress& progress = {}) const;
  // Reads elements [first_elem, first_elem + n_elems) in row-major order; decodes only the chunks
  // they touch. Sub-byte dtypes: both must fall on whole bytes.
  Result<void> read_elements(const Record& record, std::uint64_t first_elem, std::uint64_t n_elems,
                             MutableBytes out) const;
  // Reads the box starts[i] <= index i < stops[i], row-major. One entry per dimension.
  Result<void> read_slice(const Record& record, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const;
  // Returns the tensor's bytes in place: raw records in a single frame of a mapped or in-memory
  // source, after checking their hashes. Otherwise kUnsupported. The view lives as long as the
  // source.
  Result<ByteView> map(const Record& record) const;

  // Returns the decoded bytes of an attachment. Error: kNotFound.
  Result<std::vector<std::byte>> attachment(std::string_view name) const;

  // Checks the file. Damage is reported in the VerifyReport; an Error means that checking itself
  // could not continue.
  Result<VerifyReport> verify(VerifyLevel level, const ReadProgress& progress = {}) const;

  // XXH3-128 over the names, dtypes, shapes and digests of all named records in order of their
  // names: equal for files with equal tensors, however stored.
  Digest content_digest() const;

 private:
  struct CFCK_LOCAL Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  friend struct ReaderAccess;  // update, compact and repair reuse stored chunks
};

}  // namespace cfck
