// The tensors of a model, however they are stored: a .cfck file, a safetensors file, a folder with
// shards of either, or a file of another format (docs/formats.md). Formats are recognised by the
// first bytes of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/owned_tensor.hpp"
#include "cfck/reader.hpp"
#include "cfck/record.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

enum class Sharing : std::uint8_t {
  kNone,
  kMemory,  // elements of another tensor: a tied name or a view, which is loaded tied
  kBytes,   // equal to another tensor by chance, and stored once
};

// One tensor of an archive. Copies may be used like the original: functions of the archive read
// what its own list says at `index`.
struct ArchiveTensor {
  std::string name;          // empty for a hidden tensor
  std::size_t index = 0;     // in TensorArchive::tensors()
  std::size_t file = 0;      // in TensorArchive::files()
  bool hidden = false;       // memory behind views that has no name of its own
  DType dtype = DType::kU8;  // may be a value of a newer version: see bits_per_element
  Shape shape;
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = 0;       // of the contiguous tensor; 0 if the dtype is unknown
  std::uint64_t stored_bytes = 0;  // bytes of the file for this tensor only
  std::uint64_t chunk_elems = 0;   // elements that are decoded together; 0: each is read alone
  // Offset of the tensor's bytes in its file, where they are stored raw; nullopt where they are
  // encoded.
  std::optional<std::uint64_t> offset_bytes;

  Sharing sharing = Sharing::kNone;
  std::size_t base = 0;  // the tensor it shares with, in tensors(); else its own index
  // Sharing::kMemory: where the view starts in its base and its strides, in elements.
  std::uint64_t element_offset = 0;
  std::vector<std::uint64_t> strides;
  // True if only metadata give this name to the tensor `base`, as safetensors.torch.save_model
  // writes them. In a folder, another shard may have a tensor of this name, which then takes
  // precedence.
  bool named_by_metadata = false;

  // The record in the index of a .cfck file, as long as the archive lives; nullptr in other
  // formats.
  const Record* record = nullptr;

  // The number of the archive that listed the tensor, another one for each archive of a process; 0
  // for a tensor that none did.
  std::uint64_t archive_id = 0;
};

struct ArchiveFile {
  std::string path;         // "<memory>" for bytes in memory
  std::string_view format;  // "cfck", "safetensors", "pytorch", "hdf5"...
  std::uint64_t n_bytes = 0;
  std::uint64_t max_decoded_bytes = 0;  // that one call may return; 0: any number
  const Reader* reader = nullptr;       // of a .cfck file, as long as the archive lives
  const ByteSource* source = nullptr;   // the bytes of the file, as long as the archive lives
};

// One tensor to read, whole, into memory of the caller.
struct ArchiveRead {
  const ArchiveTensor* tensor = nullptr;
  MutableBytes out;  // exactly tensor->n_bytes, none of them of a file in memory
};

struct ArchiveOptions {
  DecodeOptions decode = {};  // formats other than .cfck use threads and max_decoded_bytes only
  ReadMode mode = ReadMode::kPread;
  // For files that hold more than tensors which can be kept, such as arrays of strings in .npz:
  // the archive has the others, and notes() names what it leaves out. Else such files are refused.
  bool only_tensors = false;
};

// All const functions may be called concurrently.
class CFCK_API TensorArchive {
 public:
  // Opens a file, the index of shards, or a folder with a model. Of a folder it takes the model
  // that cfck.load_file in Python takes (docs/safetensors.md, "Files and folders"): by names that
  // model libraries use, and an index of shards before a single file. Files of one format without
  // an index whose names say nothing are read together. The second form owns `source`. Errors have
  // the path of the file they are about: kNotFound, kIo, those of the format, kUnsupported for
  // files of other programs, with what to do about them; kInvalidArgument for a folder with several
  // models, with their names, and where `source` is nullptr; kCorrupt for a bad index, for a name
  // that two shards have, and for a folder whose conversion was interrupted.
  static Result<std::unique_ptr<TensorArchive>> open(const std::string& path,
                                                     const ArchiveOptions& options = {});
  static Result<std::unique_ptr<TensorArchive>> open(std::unique_ptr<ByteSource> source,
                                                     const ArchiveOptions& options = {});
  // Opens a source of a known format, as ArchiveFile::format names it. Error: also kUnsupported.
  static Result<std::unique_ptr<TensorArchive>> open_as(std::string_view format,
                                                        std::unique_ptr<ByteSource> source,
                                                        const ArchiveOptions& options = {});
  // Returns the format of the source by its first bytes, by name; empty if it is not one that is
  // read here. Errors: those of the source.
  static Result<std::string_view> format_of(const ByteSource& source);
  virtual ~TensorArchive();
  TensorArchive(const TensorArchive&) = delete;
  TensorArchive& operator=(const TensorArchive&) = delete;

  virtual std::span<const ArchiveFile> files() const = 0;
  // Tensors in the order of the files, hidden ones included; names that only metadata give come
  // last. Spans and pointers live as long as the archive.
  virtual std::span<const ArchiveTensor> tensors() const = 0;
  // Returns the tensor of this name, or nullptr.
  virtual const ArchiveTensor* find(std::string_view name) const = 0;
  // User metadata of all files; the first that has a key decides.
  virtual const Metadata& metadata() const = 0;
  // Named byte strings of all files; the first that has a name decides. A safetensors file has its
  // header as "safetensors.header", as .cfck files made of one keep it; a file of PyTorch has its
  // containers and plain values as "cfck.checkpoint" (cfck/checkpoint.hpp).
  virtual std::span<const Attachment> attachments() const = 0;
  // Returns the decoded bytes of an attachment. Error: kNotFound.
  virtual Result<std::vector<std::byte>> attachment(std::string_view name) const = 0;

  // Returns sentences about what the files have and the archive has not, such as attributes of
  // HDF5 that are references (docs/formats.md); most archives have none.
  virtual std::span<const std::string> notes() const { return {}; }

  // kLimitExceeded if one call may not return this many bytes: ask before you allocate memory for
  // what a file claims.
  virtual Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                           std::uint64_t n_bytes) const = 0;
  // Reads several tensors at once, in parallel. Views come in contiguous form. `progress` as for
  // Reader::read_many. Errors: kInvalidArgument for memory of the wrong size or a tensor of another
  // archive, those of the format.
  virtual Result<void> read_many(std::span<const ArchiveRead> reads,
                                 const ReadProgress& progress = {}) const = 0;
  Result<void> read(const ArchiveTensor& tensor, MutableBytes out) const;
  // Reads a tensor into memory of its own, allocated once the size was checked against the limits.
  // Errors: also kOutOfMemory, kUnsupported for a dtype of a newer version, and kNotFound for a
  // name that the archive does not have.
  Result<OwnedTensor> read(const ArchiveTensor& tensor) const;
  Result<OwnedTensor> read(std::string_view name) const;
  // Reads elements [first_elem, first_elem + n_elems) in row-major order; both on whole bytes.
  virtual Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                                     std::uint64_t n_elems, MutableBytes out) const = 0;
  // Reads the box starts[i] <= index i < stops[i], row-major. One entry for each dimension.
  virtual Result<void> read_slice(const ArchiveTensor& tensor,
                                  std::span<const std::uint64_t> starts,
                                  std::span<const std::uint64_t> stops, MutableBytes out) const = 0;

  // Checks all files. Damage is in the report. Error: kUnsupported for a format without checksums.
  virtual Result<VerifyReport> verify(VerifyLevel level, const ReadProgress& progress = {}) const;

 protected:
  TensorArchive() = default;
};

}  // namespace cfck
