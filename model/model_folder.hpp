// Folders as people share models: one file of tensors or several shards with an
// index, and what belongs to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/status.hpp"
#include "model/file_kind.hpp"

namespace cfck::tools {

// A longer index is refused.
inline constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

// Contents of model.safetensors.index.json or model.cfck.index.json.
struct ShardIndex {
  std::map<std::string, std::string> weight_map;  // tensor to file, relative to the folder
  std::vector<std::string> files() const;         // sorted, each once
};

// More tensors than any model has; bounds the memory that an index takes when it is parsed.
inline constexpr std::size_t kMaxIndexValues = std::size_t{1} << 21;

// Checks the JSON, duplicate keys, and that no file name is absolute or has a
// part "..". Errors: kCorrupt, kLimitExceeded for more values, of any kind, than given.
Result<ShardIndex> parse_shard_index(std::string_view json,
                                     std::size_t max_values = kMaxIndexValues);

// The same JSON with the suffix of every shard's name changed, without the tensors of `left_out`.
Result<std::string> rename_shards(std::string_view json, FileKind from, FileKind to,
                                  const std::set<std::string>& left_out = {});

// Reads a whole file of at most `max_bytes`.
Result<std::string> read_text(const std::string& path, std::size_t max_bytes);

// Paths of the files with tensors that `path` stands for: `path` itself, or the
// shards of a folder, by its index if it has one. Errors: kNotFound for a folder
// without tensors, kCorrupt for a bad index or a folder whose conversion was interrupted.
Result<std::vector<std::string>> tensor_files(const std::string& path);

// Notices that a folder is replaced while its files are opened one after the other. Make it
// before tensor_files(), ask it when all files are open. Files that are not folders stay.
class FolderWatch {
 public:
  explicit FolderWatch(std::string path) : path_(std::move(path)), before_(state()) {}
  // Errors: kIo; kCorrupt if the folder is being replaced.
  Result<void> check() const;

 private:
  using File = std::pair<std::uint64_t, std::uint64_t>;  // device and number
  // Of the folder and of its indexes.
  std::vector<File> state() const;

  std::string path_;
  std::vector<File> before_;
};

// Everything to be found in a folder, for a conversion.
struct FolderContents {
  std::string folder;
  std::vector<std::string> tensor_files;  // of one kind; relative paths, sorted
  std::vector<std::string> index_files;   // of the same kind
  std::vector<std::string> other_files;
  // Of other_files those that links bring in from outside the folder. Caches of
  // huggingface_hub keep all files so, in ../../blobs: these do not count.
  std::vector<std::string> outside_files;
  FileKind kind = FileKind::kSafetensors;
};

// Symbolic links are followed; folders whose name begins with a dot and what killed saves
// left are left out. Errors: as of tensor_files(). A folder with safetensors files is read as such,
// whatever else it has.
Result<FolderContents> read_folder(const std::string& folder);

// Whether this is a name that model libraries give to the index of shards of this kind:
// "model.safetensors.index.json", "adapter_model.safetensors.index.json", and with a variant
// "model.fp16.safetensors.index.json" or "model.safetensors.index.fp16.json".
bool is_index_name(std::string_view name, FileKind kind);

// The name of the index for shards of the kind `to`. Requires: is_index_name(name, from).
std::string renamed_index(std::string_view name, FileKind from, FileKind to);

}  // namespace cfck::tools
