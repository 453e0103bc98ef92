// The part of an archive that all formats share: its lists, and names to find in them.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/archive.hpp"

namespace cfck::model {

// Returns another number with each call, and never 0.
std::uint64_t next_archive_id() noexcept;

// Returns kLimitExceeded for a call that would read more than `max_bytes` decoded bytes.
Error too_many_decoded_bytes(std::uint64_t n_bytes, std::uint64_t max_bytes);

class ListedArchive : public TensorArchive {
 public:
  std::span<const ArchiveFile> files() const override { return files_; }
  std::span<const ArchiveTensor> tensors() const override { return tensors_; }
  const ArchiveTensor* find(std::string_view name) const override;
  const Metadata& metadata() const override { return metadata_; }
  std::span<const Attachment> attachments() const override { return attachments_; }
  Result<std::vector<std::byte>> attachment(std::string_view name) const override;

  // Checks ArchiveFile::max_decoded_bytes.
  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override;

 protected:
  // Fills in the fields that do not depend on the format (index, n_elems, archive_id) and sorts the
  // names. To be called when the list of tensors is complete. Error: kLimitExceeded for an
  // impossible shape.
  Result<void> finish_list();
  // Returns two tensors of one name, in the order of the list; nullptr if there are none.
  std::pair<const ArchiveTensor*, const ArchiveTensor*> same_names() const;
  // Returns the entry of tensors() that `tensor` is, or is a copy of. Error: kInvalidArgument for a
  // tensor of another archive.
  Result<const ArchiveTensor*> own(const ArchiveTensor* tensor) const;
  // Error: kInvalidArgument where the elements are not in the tensor or do not begin and end on
  // whole bytes, and where `out` does not have their size.
  static Result<void> check_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                                     std::uint64_t n_elems, MutableBytes out);

  std::vector<ArchiveFile> files_;
  std::vector<ArchiveTensor> tensors_;
  Metadata metadata_;
  std::vector<Attachment> attachments_;

 private:
  const std::uint64_t id_ = next_archive_id();
  std::vector<std::size_t> by_name_;
};

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
