// The contents of a file that torch.save wrote.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "interop/pytorch/pickle/tree.hpp"
#include "interop/zip/directory.hpp"
#include "interop/zip/inflated_member.hpp"

namespace cfck::interop {

struct PytorchTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
  const ByteSource* source = nullptr;  // nullptr: the file itself
  std::uint64_t offset_bytes = 0;      // of its first element, in the source
  std::size_t storage = 0;             // tensors of one storage share its number
  bool negated = false;                // the values are the opposite of those in the file
  bool conjugated = false;
};

struct PytorchFile {
  std::vector<PytorchTensor> tensors;  // in the order in which the containers name them
  std::string skeleton;                // as in spec/checkpoint.md; empty with `only_tensors`
  Metadata metadata;                   // the versions of modules, where there are any
  std::vector<std::string> notes;      // what `only_tensors` left out
  std::vector<ZipMember> members;      // of a zip file
  // The sources of storages that are compressed.
  std::unique_ptr<BlockCache> cache;
  std::vector<std::unique_ptr<InflatedMember>> inflated;
};

// The places of the elements of storages, by their keys.
struct StoragePlace {
  const ByteSource* source = nullptr;  // nullptr: the file itself
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
};
using StoragePlaces = std::map<std::string, StoragePlace, std::less<>>;

// Makes the contents of a pickle and the places of its storages. Errors: kCorrupt, kTruncated for a
// storage that is not there as the pickle says; those of tree_of().
Result<PytorchFile> contents_of(Pickle pickle, const StoragePlaces& places, bool only_tensors);

// Reads a file of torch.save, without executing anything and without reading a tensor: a zip file,
// or one of PyTorch before 1.6. Nothing may be taken from the file after `source` is gone. Errors:
// kUnsupported for what only Python can load, with the name of it; kCorrupt, kTruncated,
// kLimitExceeded.
Result<PytorchFile> read_pytorch_file(const ByteSource& source, bool only_tensors);

// Reads a file of PyTorch before 1.6, whose first bytes begins_legacy_file() recognises.
bool begins_legacy_file(std::string_view head);
Result<PytorchFile> read_legacy_file(const ByteSource& source, bool only_tensors);

}  // namespace cfck::interop
