// What a file can be stored against: tensors that its reader has already (spec/format.md, section
// "Bases").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

class Reader;         // cfck/reader.hpp
class TensorArchive;  // cfck/archive.hpp

// A tensor of a base.
struct BaseTensor {
  DType dtype = DType::kU8;
  Shape shape;
  std::size_t index = 0;  // in the base
};

// Tensors by name, each with a digest. The writer of a file stores a tensor against the one of the
// same name, dtype and shape; readers decode it with a tensor of the same digest, wherever that is.
// All const functions may be called concurrently.
class CFCK_API Base {
 public:
  virtual ~Base();
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;

  // The name of the file without its folder, which files that are stored against it remember; empty
  // for tensors that are in no file.
  virtual std::string_view name() const = 0;
  // Returns the tensor of this name, which lives as long as the base, or nullptr.
  virtual const BaseTensor* find(std::string_view name) const = 0;
  // Returns the digest of a tensor where it costs nothing: a file says it, or it was asked for
  // before.
  virtual std::optional<Digest> known_digest(const BaseTensor& tensor) const = 0;
  // Returns the digest of a tensor (spec/format.md, section "Digests"). The first call may read all
  // of it. Errors: those of read().
  virtual Result<Digest> digest(const BaseTensor& tensor) const = 0;
  // Fills `out` with the bytes of the tensor from `offset_bytes` on, on the thread that calls. For
  // sub-byte dtypes as for all others, both fall on elements. Errors: those of the file.
  virtual Result<void> read(const BaseTensor& tensor, std::uint64_t offset_bytes,
                            MutableBytes out) const = 0;
  // Returns all bytes of a tensor that is in memory, else an empty view.
  virtual ByteView in_place(const BaseTensor& tensor) const {
    (void)tensor;
    return {};
  }
  // Returns the number of files that must be open besides this one to read it, because it is stored
  // against a base itself: those of a chain. 0 for tensors in memory.
  virtual std::uint64_t chain_length() const { return 0; }

 protected:
  Base() = default;
};

// A contiguous tensor in memory, under its name.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// Makes a base of tensors in memory, which must stay valid, and unchanged while they are used by
// others than apply_patch().
// Errors: kInvalidArgument for tensors that have not the bytes of their shapes, and for two of one
// name; kUnsupported for memory of a device.
CFCK_API Result<std::shared_ptr<const Base>> base_in_memory(std::span<const NamedTensor> tensors);
// Makes a base of the named tensors of a .cfck file, which it then owns. It decodes on the threads
// that use it. Errors: kInvalidArgument for a reader that was moved from.
CFCK_API Result<std::shared_ptr<const Base>> base_of_reader(Reader reader, std::string name = {});
// Opens a .cfck file as a base, which may have one itself. Errors: those of Reader::open().
CFCK_API Result<std::shared_ptr<const Base>> open_base(const std::string& path,
                                                       const DecodeOptions& options = {});
// Makes a base of all named tensors of a file or folder of any format, which it then owns. Formats
// without digests are read to make one of each tensor. Errors: kInvalidArgument for nullptr.
CFCK_API Result<std::shared_ptr<const Base>> base_of_archive(
    std::unique_ptr<const TensorArchive> archive, std::string name = {});

// Returns the names, without the folder and sorted, of the files in the folder of the file at
// `path` that are stored against it and need its values: they name it as their base, and it has a
// tensor with the digest that one of theirs is stored against. Replacing or removing it would take
// that tensor from them. A link is taken for the file that it leads to. A damaged file may be
// repaired, and so counts as having what others need.
//
// Looks at files with the ending ".cfck" and with that of `path`, and of each reads the last 128
// bytes, and the index where these say that it is stored against a base. It passes over files that
// cannot be opened, that are no .cfck files of this version, or whose index is damaged or above
// 512 MiB, and knows nothing of files in other folders (DecodeOptions::base_dirs) and of those that
// are stored against the dependents. Errors: kNotFound where there is no file at `path`; kIo for a
// folder that cannot be listed.
CFCK_API Result<std::vector<std::string>> dependents_of(const std::string& path);
// For programs that are about to replace or remove the file at `path`: kExists with the names of
// its dependents and what to do, where it has any. `otherwise` says what that may be, besides
// making them stand alone. Where there is no file, nothing is lost. Error: also kIo, as above.
CFCK_API Result<void> check_no_dependents(const std::string& path,
                                          const std::string& otherwise = "choose another name");

}  // namespace cfck
