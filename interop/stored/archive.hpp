// Archives of formats that store elements raw, in any order: files of PyTorch and numpy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "interop/zip/directory.hpp"
#include "model/listed_archive.hpp"

namespace cfck::interop {

// One tensor, and where its elements are.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kU8;  // of whole bytes, unless the tensor is contiguous
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
  const ByteSource* source = nullptr;  // nullptr: the file itself
  std::uint64_t offset_bytes = 0;      // of its first element, in the source
  bool big_endian = false;
  bool negated = false;  // the values are the opposite of those in the source
  // The values are the conjugates of those in the source: of C64, or of floats whose last dimension
  // is real and imaginary part.
  bool conjugated = false;
};

// Derived classes add tensors, call tie_tensors() where memory may be shared, and finish_list().
class StoredArchive : public model::ListedArchive {
 public:
  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override;
  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override;
  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override;
  // Checks the members of a zip file (interop/zip/verify.hpp).
  Result<VerifyReport> verify(VerifyLevel level, const ReadProgress& progress) const override;

 protected:
  // Lists the file itself. Views may repeat elements, and members of zip files may be compressed,
  // so unless `options` have a limit, one call returns at most 64 times the bytes of the file, or
  // 16 GiB.
  StoredArchive(std::unique_ptr<ByteSource> source, std::string_view format,
                const DecodeOptions& options);

  const ByteSource& source() const { return *source_; }

  // Sources must outlive the archive, and have the elements. Error: kLimitExceeded for impossible
  // shapes.
  Result<void> add(StoredTensor tensor);
  // Finds tensors whose bytes overlap, among those of equal `family` (one for each tensor): where
  // one of them is contiguous and has the elements of all, it is the base and the others are views
  // of it. Of others, those with the same elements in the same order share the first one's; the
  // rest are listed on their own.
  void tie_tensors(const std::vector<std::size_t>& families);

  std::vector<ZipMember> members_;  // of a zip file

 private:
  struct Place {
    StoredTensor tensor;
    std::uint64_t covered_bytes = 0;  // from the first to the last of its elements
    bool contiguous = true;           // row-major, and of the byte order of cfck
  };

  const ByteSource& source_of(const Place& place) const {
    return place.tensor.source == nullptr ? *source_ : *place.tensor.source;
  }
  void tie_family(std::vector<std::size_t> family, std::uint64_t start, std::uint64_t end);
  void tie_equals(const std::vector<std::size_t>& family);
  void tie(std::size_t view, std::size_t base, std::uint64_t element_offset,
           std::vector<std::uint64_t> strides);

  std::unique_ptr<ByteSource> source_;
  unsigned threads_;
  std::vector<Place> places_;  // of each of tensors_
};

}  // namespace cfck::interop
