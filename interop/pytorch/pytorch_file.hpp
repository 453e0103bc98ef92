// The contents of a file that torch.save wrote.
#pragma once

#include <string>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "interop/zip/zip_directory.hpp"

namespace cfck::interop {

struct PytorchTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
  std::uint64_t offset_bytes = 0;      // of its first element, in the file
  std::size_t storage = 0;             // tensors of one storage share its number
};

struct PytorchFile {
  std::vector<PytorchTensor> tensors;  // in the order in which the containers name them
  std::string skeleton;                // as in spec/checkpoint.md
  std::vector<ZipMember> members;      // of the zip file
};

// Reads a zip file of torch.save, without executing anything and without reading a tensor. Errors:
// kUnsupported for what only Python can load, with the name of it; kCorrupt, kTruncated,
// kLimitExceeded.
Result<PytorchFile> read_pytorch_file(const ByteSource& source);

}  // namespace cfck::interop
