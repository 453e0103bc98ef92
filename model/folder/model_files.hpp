// The files that stand for a model, and which of their tensors its index takes from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

struct ModelFiles {
  std::vector<std::string> paths;
  std::string index;  // the path of the index that names them; empty: there is none
  // The number in `paths` of the file from which the index takes each tensor, by its name.
  std::map<std::string, std::size_t, std::less<>> places;
  // Paths of shards beside the index that no index of the folder names. They are not in `paths`.
  std::vector<std::string> unnamed;
  // Paths of files "._NAME", in which macOS keeps attributes of NAME. They are never read.
  std::vector<std::string> attribute_files;
};

struct FindOptions {
  // Files of a folder that only their format connects are parts of one model; else such a folder
  // has several models.
  bool joins_unnamed = true;
  // Also looks for what is not read: ModelFiles::unnamed and ModelFiles::attribute_files.
  bool finds_unread = true;
  // Shards come in the order in which the index first names them; else by their names.
  bool in_index_order = false;
  // That the index may have; nullopt: kMaxIndexBytes.
  std::optional<std::uint64_t> max_index_bytes = {};
};

// Returns the files with tensors that `path` stands for: `path` itself, the shards that it names if
// it is an index, or those of the model of a folder (find_model). Errors: kNotFound for a folder
// without tensors, and for a shard that the index names and that is missing; kInvalidArgument for a
// folder with several models; kCorrupt for a bad index or a folder whose conversion was
// interrupted; kLimitExceeded for a long index.
Result<ModelFiles> model_files(const std::string& path, const FindOptions& options = {});

// Returns for each of `tensors`, those of the file `paths[number]`, whether it is one of the model.
// Without an index all are. With one, a tensor is taken from the file that the index names, and
// copies in other files are not. A name that the index does not have is one of the model if it is
// tied to a tensor that is. Hidden tensors stay. Error: kCorrupt for a tensor that the index places
// in the file, and that it lacks.
Result<std::vector<bool>> tensors_of_model(const ModelFiles& files, std::size_t number,
                                           std::span<const ArchiveTensor> tensors);

// A tensor of a shard that is none of the model.
struct StrayTensor {
  std::string path;
  std::string name;
};

// Returns the tensors of the file that tensors_of_model() leaves out.
std::vector<StrayTensor> stray_tensors(const ModelFiles& files, std::size_t number,
                                       std::span<const ArchiveTensor> tensors,
                                       const std::vector<bool>& is_of_model);

// Returns sentences about what is in the folder and not read: shards that no index names, tensors
// that the index takes from elsewhere or does not have, and files with attributes of macOS.
std::vector<std::string> unread_warnings(const ModelFiles& files,
                                         std::span<const StrayTensor> strays);

// Checks the shards among `names`, files of one folder that has no index: they must be those of one
// model, and all of them. Errors: kInvalidArgument for shards of several models, kNotFound for one
// that is missing.
Result<void> check_shards(const std::string& folder, const std::vector<std::string>& names);

// Error: kUnsupported for the path of an index of shards, where one file of tensors is meant.
Result<void> check_no_index(const std::string& path);

// Error: kCorrupt where there are shards that no index names.
Result<void> check_all_named(const ModelFiles& files);

// Says that files with attributes of macOS are `left_out`, as in "not read"; empty where there are
// none.
std::string attribute_files_text(std::span<const std::string> paths, std::string_view left_out);

}  // namespace cfck::model
