// Folders in which models are shared: one file of tensors or several shards with an index, and the
// files that belong to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/status.hpp"
#include "model/folder/shard_index.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

// Notices that a folder is replaced while its files are opened one after the other. Create it
// before model_files(), and check it when all files are open. Paths that are not folders are fine.
class FolderWatch {
 public:
  // `index` is the name of a file that is watched like the indexes, whatever it is called.
  explicit FolderWatch(std::string path, std::string index = {})
      : path_(std::move(path)), index_(std::move(index)), before_(state()) {}
  bool changed() const { return state() != before_; }
  // Errors: kIo; kCorrupt if the folder is being replaced.
  Result<void> check() const;

 private:
  using File = std::pair<std::uint64_t, std::uint64_t>;  // device and number
  // Returns the identity of the folder and of its indexes.
  std::vector<File> state() const;

  std::string path_;
  std::string index_;
  std::vector<File> before_;
};

// Calls `open`, which opens the files that `path` (a file, an index of shards, or a folder) stands
// for, and calls it again, up to five times in all, where the folder was replaced meanwhile.
// Errors: those of `open` and of FolderWatch::check(); kIo if the folder was replaced each time.
// `is_in_place`, asked once the folder turned out to be the one of before, says whether what was
// opened is still there: a folder may have been replaced and put back meanwhile.
Result<void> open_unchanged(const std::string& path, const std::function<Result<void>()>& open,
                            const std::function<bool()>& is_in_place = {});

// Everything in a folder that concerns a conversion.
struct FolderContents {
  std::string folder;
  std::vector<std::string> tensor_files;  // of one format; relative paths, sorted
  std::vector<std::string> index_files;   // of the same format
  std::vector<std::string> other_files;
  // The files among other_files that links bring in from outside the folder. Caches of
  // huggingface_hub keep all files this way, in ../../blobs: these are not listed.
  std::vector<std::string> outside_files;
  // Files in which macOS keeps attributes of others; they are in none of the other lists.
  std::vector<std::string> attribute_files;
  // The files that indexes name, and those of `tensor_files` that are shards beside an index though
  // no index names them.
  std::set<std::string> named_files;
  std::vector<std::string> unnamed_shards;
  const ArchiveFormat* format = nullptr;
};

// Symbolic links are followed; folders whose name begins with a dot and the remains of killed saves
// are left out. If several formats have files in the folder, safetensors is taken, which is not
// encoded yet, then cfck, then one of model_formats(): of these, files without the name of a model
// are among `other_files`, also where there are no others. So are module_files(), unless there are
// no others. Errors: kNotFound for a folder without
// files of these formats, kCorrupt for one whose conversion was interrupted, kIo.
Result<FolderContents> read_folder(const std::string& folder);

// Returns the error for a folder with these files, none of which is read as a model of a folder.
Error no_tensor_files(const std::string& folder, const std::vector<std::string>& files,
                      bool backwards = false);

}  // namespace cfck::model
