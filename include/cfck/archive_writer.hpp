// Writes the tensors of archives, or of anything else, in any format that archives have.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/tensor.hpp"
#include "cfck/writer.hpp"

namespace cfck {

struct ArchiveSummary : WriteSummary {
  // Names that the file has in its metadata only, for tensors that share memory with others.
  std::vector<std::string> metadata_names;
};

// Options of ArchiveWriter::create_folder().
struct FolderOptions {
  // Maximum of the decoded bytes of the tensors of one shard. A tensor above it has a shard of its
  // own. Tensors are placed in the order in which they are added.
  std::uint64_t max_shard_bytes = 5'000'000'000;
  // How the names of the files begin: "model-00001-of-00003.cfck".
  std::string stem = "model";
  // If false, an existing folder with files in it is kExists.
  bool replace_existing = true;
};

// Usage: create, add..., finish. Added memory, sources and archives must stay valid and unchanged
// until finish() returns. Names and metadata must be valid UTF-8, names must differ, and sources
// must have the bytes of their tensors: kInvalidArgument. After an error the writer refuses
// everything but destruction with that error, and once finished with kInvalidArgument. Not
// thread-safe.
class CFCK_API ArchiveWriter {
 public:
  // `format` is "cfck", "safetensors", "hdf5", "keras", "npz" or "npy"; all but the first use only
  // the threads of `options`. `sink` must outlive the writer. Errors: kUnsupported for another
  // format, kInvalidArgument. Formats that cannot have the tensors say so in finish()
  // (docs/formats.md).
  static Result<std::unique_ptr<ArchiveWriter>> create(std::string_view format, ByteSink& sink,
                                                       const EncodeOptions& options = {});
  // Writes a folder of shards with an index ("model.cfck.index.json"), or one file ("model.cfck")
  // where one shard has room for all tensors. Tied tensors are in the shard of their base, every
  // shard has the metadata, and the first one the attachments; targets are those of all shards
  // together. The folder appears at `path` complete, or not at all. One that exists is replaced in
  // one step (where the file system can) and keeps its other files; shards and indexes of this stem
  // and format go. Errors: as above; kInvalidArgument also for a folder whose other files would be
  // read with the new ones, or instead of them; kIo. `files` must outlive the writer.
  static Result<std::unique_ptr<ArchiveWriter>> create_folder(std::string_view format,
                                                              const std::string& path,
                                                              const EncodeOptions& options = {},
                                                              const FolderOptions& folder = {},
                                                              FileSystem& files = system_files());
  virtual ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  virtual Result<void> add(std::string_view name, const TensorSource& tensor) = 0;
  virtual Result<void> add(std::string_view name, const TensorView& tensor) = 0;
  // Adds a second name for a tensor that was added. Returns false, and adds nothing, if the format
  // cannot have this name, or options ask for another codec or error for it. Error: kNotFound for a
  // base that was not added.
  virtual Result<bool> tie(std::string_view name, std::string_view base) = 0;
  virtual Result<void> set_metadata(std::string_view key, std::string_view value) = 0;
  // Formats without attachments leave them out.
  virtual Result<void> attach(std::string_view name, ByteView bytes) = 0;
  // Adds all tensors with their ties, the metadata and the attachments, so that a file that is
  // converted to another format and back is restored byte for byte, unless options make it lossy.
  virtual Result<void> add_archive(const TensorArchive& archive) = 0;

  // Neither of these throws.
  virtual void set_progress(WriteProgress progress) = 0;
  virtual void set_search_progress(SearchProgress progress) = 0;
  virtual Result<ArchiveSummary> finish() = 0;
  // Finishes the files of one checkpoint, as finish_together() of Writers does. A folder among them
  // has targets of its own. Error: also kInvalidArgument for nullptr and for a writer that is there
  // twice; then nothing is written.
  static Result<std::vector<ArchiveSummary>> finish_together(
      std::span<ArchiveWriter* const> writers);

 protected:
  ArchiveWriter() = default;

 private:
  // Returns the writer of a .cfck file; nullptr in other formats. Error: that of an earlier call.
  virtual Result<Writer*> encoder() { return nullptr; }
  friend struct ArchiveWriterAccess;
};

}  // namespace cfck
