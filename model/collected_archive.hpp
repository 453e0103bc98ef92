// Tensors added to a writer, as an archive: for formats whose files begin with a list of all
// tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/writer.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {

// Refers to the added tensors, which must stay valid. Complete after finish().
class CollectedArchive final : public ListedArchive {
 public:
  CollectedArchive();

  // Errors: those of Writer::add for names and memory.
  Result<void> add(std::string_view name, const TensorSource& tensor);
  Result<void> add(std::string_view name, const TensorView& tensor);
  // Returns false, and adds nothing, for a name that is there already or that no tensor can have.
  // Error: kNotFound for a base that was not added.
  Result<bool> tie(std::string_view name, std::string_view base);
  Result<void> set_metadata(std::string_view key, std::string_view value);
  Result<void> attach(std::string_view name, ByteView bytes);
  Result<void> add_archive(const TensorArchive& archive);
  Result<void> finish();

  Result<std::vector<std::byte>> attachment(std::string_view name) const override;
  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override;
  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override;
  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override;
  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override;

 private:
  // The location of a tensor: in an archive, in a source, or in memory.
  struct Place {
    const TensorArchive* archive = nullptr;
    std::size_t index = 0;
    const ByteSource* source = nullptr;
    std::uint64_t offset_bytes = 0;
    ByteView bytes;

    const ArchiveTensor& tensor() const { return archive->tensors()[index]; }
  };

  Result<void> add(ArchiveTensor tensor, Place place);

  std::vector<Place> places_;                   // of each of tensors_
  std::map<std::string, std::size_t> by_name_;  // while tensors are added
  std::map<std::string, std::vector<std::byte>, std::less<>> attached_;
  std::map<std::string, const TensorArchive*, std::less<>> attached_sources_;
};

}  // namespace cfck::model
