// Builds an HDF5 file around tensors: all of it but their elements, and the places where these go.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "hdf5/archive/values.hpp"
#include "hdf5/library/file_drivers.hpp"

namespace cfck::hdf5 {

struct PlacedTensor {
  const ArchiveTensor* tensor = nullptr;
  std::uint64_t offset_bytes = 0;
};

// To be used once, with a Library.
class FileBuilder {
 public:
  // Both must outlive the builder.
  FileBuilder(const TensorArchive& archive, MemoryFile& memory)
      : archive_(archive), memory_(memory) {}

  // `objects` are those of hdf5.structure, or null: tensors that it lacks come last, and what it
  // has besides the tensors of the archive only where it stands on its own. Errors: kUnsupported
  // for a dtype, kInvalidArgument for a name that HDF5 does not have, kCorrupt for a structure that
  // no reader makes.
  Result<void> build(const Json& objects);

  // The tensors with elements, in the order of the file.
  const std::vector<PlacedTensor>& placed() const { return placed_; }

 private:
  Result<void> create_file(const Json& root);
  Result<void> add_object(const Json& object);
  Result<void> add_group(const std::string& path, const Json& object);
  Result<void> add_structured_tensor(const std::string& path, const Json& object);
  Result<void> add_link(const std::string& path, const std::string& target);
  Result<void> add_missing_tensors();
  Result<void> add_tensor(const ArchiveTensor& tensor, const Json& object);
  Result<Handle> type_for(const ArchiveTensor& tensor, const Json& object) const;
  Result<void> add_attributes(hid_t object, const Json& json);
  Result<void> add_metadata(const Json& root);
  // Creates the groups that a path goes through.
  Result<void> add_parents(const std::string& path);
  // Returns the path of a dataset with the same elements, or nullptr.
  const std::string* tied_path(const ArchiveTensor& tensor) const;

  const TensorArchive& archive_;
  MemoryFile& memory_;
  Handle file_;
  std::set<std::string, std::less<>> groups_ = {""};
  std::set<std::string, std::less<>> others_;                 // paths that are no groups
  std::multimap<std::size_t, const ArchiveTensor*> written_;  // by the tensor they share with
  std::vector<PlacedTensor> placed_;
};

}  // namespace cfck::hdf5
