// Tensors of files of any format, opened, as Python has them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files/stamp.hpp"
#include "cfck/archive.hpp"
#include "cfck/reader.hpp"
#include "errors.hpp"
#include "model/folder/open_model.hpp"

namespace cfck::python {

inline MutableBytes bytes_at(std::uintptr_t address, std::uint64_t n_bytes) {
  return {reinterpret_cast<std::byte*>(address), n_bytes};
}

// A record of an archive. `base` is an index in the list of the archive, and what is no tensor by
// its name is hidden.
struct ListedRecord : Record {
  std::size_t file = 0;     // the number of the file that has it
  std::string_view format;  // of that file
};

// Records go by their indexes in records(). All methods need the GIL, and give it up while they
// read.
class Archive {
 public:
  using Request = std::tuple<std::size_t, std::uintptr_t, std::uint64_t>;
  using Size = std::tuple<std::size_t, std::uint64_t>;

  // Opens a file, an index of shards, or a folder with one model. `max_index_bytes` is for an index
  // of shards.
  Archive(const std::string& path, const ArchiveOptions& options,
          std::optional<std::uint64_t> max_index_bytes);
  // Opens bytes, which `owner` keeps alive.
  Archive(std::unique_ptr<ByteSource> source, nb::object owner, const ArchiveOptions& options);

  const TensorArchive& tensors() const { return *model_.archive; }
  // Throws IndexError.
  const ArchiveTensor& tensor(std::size_t index) const;

  ListedRecord record(const ArchiveTensor& tensor) const;
  // Returns the record whose bytes an alias or a duplicate uses; nullopt for others.
  std::optional<ListedRecord> base_of(std::size_t index) const;
  // Returns what each file has and was not read, after its path.
  std::vector<std::pair<nb::bytes, std::string>> notes() const;
  // Returns the attachments of each file, with their sizes.
  std::vector<std::map<std::string, std::uint64_t>> attachments() const;
  nb::bytes attachment(std::size_t file, const std::string& name) const;

  // Checks sizes before the caller allocates memory for what the files claim: each is (record
  // index, bytes).
  void check_sizes(const std::vector<Size>& sizes) const;
  void read_many(const std::vector<Request>& requests, nb::object progress) const;
  // Throws IndexError.
  std::vector<ArchiveRead> reads_of(const std::vector<Request>& requests) const;
  // Does what read_many() does, without the GIL.
  Result<void> read(std::span<const ArchiveRead> reads, const ReadProgress& progress) const;
  void read_slice(std::size_t index, const std::vector<std::uint64_t>& starts,
                  const std::vector<std::uint64_t>& stops, std::uintptr_t address,
                  std::uint64_t n_bytes) const;
  // Returns the result of a read of this tensor, or of several of one file, with the path in its
  // error. Error: kIo where the file was written to since it was opened, and either the read failed
  // or no hash of what was read says that it is as it was.
  Result<void> checked(Result<void> read, const ArchiveTensor& tensor) const;
  // Error: kLimitExceeded for more than one call may return of all files.
  Result<void> check_total(std::uint64_t n_bytes, const ArchiveTensor& last) const;

 private:
  // A file as it was when it was opened; nullopt for bytes in memory.
  struct OpenedFile {
    std::optional<detail::FileStamp> stamp;
    bool is_proven = true;  // hashes prove what is read
  };

  nb::object owner_;
  model::OpenedModel model_;
  std::vector<OpenedFile> opened_;       // by file
  std::uint64_t max_decoded_bytes_ = 0;  // of all files in one call; 0: each has a limit
};

}  // namespace cfck::python
