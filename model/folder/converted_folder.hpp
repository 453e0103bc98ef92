// What becomes of a folder of models that is converted to the other format: names, and the indexes
// of its shards.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/written_folder.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

// The attachment of the first shard of a .cfck folder that holds the index of the safetensors
// folder it was made from (spec/format.md).
inline constexpr const char* kShardIndexAttachment = "safetensors.index";

// Returns the files of the folder as they are called in the format `to`, in the same order. Error:
// kInvalidArgument where two would have one name.
Result<WrittenFolder> converted_names(const FolderContents& contents, const ArchiveFormat& to);

class ConvertedIndexes {
 public:
  // Reads the indexes of the folder, and checks that every tensor is where they say. `limits` are
  // for the shards. `contents` must outlive the object. Errors: kNotFound for a shard, kCorrupt for
  // a tensor that is missing, those of the indexes and of the shards.
  static Result<ConvertedIndexes> read(const FolderContents& contents, const Limits& limits);

  // Returns the index that is to be attached to a shard as kShardIndexAttachment; empty: none.
  std::string_view attachment_of(const std::string& tensor_file) const;

  // Returns the index for the shards in the format `to`: as it was before the folder became .cfck,
  // if the first shard has it and it still agrees, else the present one, renamed and without the
  // names `tied`, each with its file, which have no tensor of their own there in that format.
  Result<std::string> converted(const std::string& index_file, const ArchiveFormat& to,
                                const WeightMap& tied) const;

 private:
  ConvertedIndexes(const FolderContents& contents, const Limits& limits)
      : contents_(&contents), limits_(limits) {}

  std::string path_of(const std::string& name) const { return contents_->folder + "/" + name; }
  Result<void> check(const std::string& index_file, const ShardIndex& index) const;
  // Returns the index that is kept in the shard; empty if there is none.
  Result<std::string> kept_in(const std::string& tensor_file) const;

  const FolderContents* contents_;
  Limits limits_;
  std::map<std::string, std::string> texts_;         // by name of the index file
  std::map<std::string, std::string> attached_;      // index text, by first shard
  std::map<std::string, std::string> first_shards_;  // by name of the index file
};

}  // namespace cfck::model
