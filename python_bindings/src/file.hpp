// One open file of tensors, of any format, as Python has it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/reader.hpp"
#include "errors.hpp"

namespace cfck::python {

inline MutableBytes bytes_at(std::uintptr_t address, std::uint64_t n_bytes) {
  return {reinterpret_cast<std::byte*>(address), n_bytes};
}

// Tensors go by their indexes.
class File {
 public:
  using Request = std::tuple<std::size_t, std::uintptr_t, std::uint64_t>;

  // `name` is that of the source in messages.
  File(std::unique_ptr<ByteSource> source, const std::string& name, nb::object owner,
       const ArchiveOptions& options);

  const TensorArchive& archive() const { return *archive_; }
  std::string format() const { return std::string(archive_->files().front().format); }
  std::uint64_t file_bytes() const { return archive_->files().front().n_bytes; }
  // nullptr for other formats than .cfck.
  const Reader* reader() const { return archive_->files().front().reader; }

  std::vector<Record> records() const;
  std::map<std::string, std::uint64_t> attachments() const;
  // Checks sizes before the caller allocates memory for what the file claims: each is (record
  // index, bytes).
  void check_sizes(const std::vector<std::tuple<std::size_t, std::uint64_t>>& sizes) const;
  void read_many(const std::vector<Request>& requests, nb::object progress) const;
  void read_slice(std::size_t index, const std::vector<std::uint64_t>& starts,
                  const std::vector<std::uint64_t>& stops, std::uintptr_t address,
                  std::uint64_t n_bytes) const;

 private:
  const ArchiveTensor& tensor(std::size_t index) const;

  nb::object owner_;
  std::unique_ptr<TensorArchive> archive_;
};

}  // namespace cfck::python
