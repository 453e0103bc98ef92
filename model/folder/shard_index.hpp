// The index of a folder of shards, model.safetensors.index.json or model.cfck.index.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/status.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

// A longer index is refused.
inline constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

// Contents of model.safetensors.index.json, model.cfck.index.json, pytorch_model.bin.index.json.
struct ShardIndex {
  std::map<std::string, std::string> weight_map;  // tensor to file, relative to the folder
  std::vector<std::string> files() const;         // sorted, each once
};

// More values than any model has tensors; bounds the memory that an index takes when it is parsed.
inline constexpr std::size_t kMaxIndexValues = std::size_t{1} << 21;

// Checks the JSON, duplicate keys, and that no file name is absolute or has a part that is empty,
// "." or "..". Errors: kCorrupt, kLimitExceeded for more values, of any kind, than given.
Result<ShardIndex> parse_shard_index(std::string_view json,
                                     std::size_t max_values = kMaxIndexValues);

// Pairs of a tensor and its file, relative to the folder, in the order of the index.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

// Reads and checks an index of at most `max_bytes`, or kMaxIndexBytes. Errors have the path: those
// of parse_shard_index(), kNotFound, kIo, kUnsupported for what is no regular file, kLimitExceeded.
Result<WeightMap> read_weight_map(const std::string& path, std::optional<std::uint64_t> max_bytes);

// Returns an index as model libraries write it: tensors by name, and metadata.total_size, which is
// `total_bytes`.
std::string make_shard_index(const std::map<std::string, std::string>& weight_map,
                             std::uint64_t total_bytes);

// Returns the name of the index for shards of this format: "model.cfck.index.json".
std::string index_name(std::string_view stem, const ArchiveFormat& format);

// Returns the same JSON with every shard renamed, without the tensors of `left_out` that it places
// in the file which is named beside them.
Result<std::string> rename_shards(std::string_view json, const ArchiveFormat& from,
                                  const ArchiveFormat& to, const WeightMap& left_out = {});

// True if this is a name that model libraries give to the index of shards of this format:
// "model.safetensors.index.json", "pytorch_model.bin.index.json", and with a variant
// "model.fp16.safetensors.index.json" or "model.safetensors.index.fp16.json".
bool is_index_name(std::string_view name, const ArchiveFormat& format);

// The parts of the name of an index: "model.fp16" and "bf16" of
// "model.fp16.safetensors.index.bf16.json".
struct IndexName {
  std::string_view stem;
  const ArchiveFormat* format = nullptr;
  std::string_view variant;  // beside ".index"; mostly empty
};
// Returns nullopt for what is_index_name() refuses, whichever the format.
std::optional<IndexName> parse_index_name(std::string_view name);

// Returns the name of the index for shards of the format `to`. Requires: is_index_name(name, from).
std::string renamed_index(std::string_view name, const ArchiveFormat& from,
                          const ArchiveFormat& to);
// Returns the name of a file with tensors in the format `to`: "sub/model.safetensors" becomes
// "sub/model.cfck", and "pytorch_model.bin" becomes "model.cfck".
std::string renamed_file(const std::string& path, const ArchiveFormat& from,
                         const ArchiveFormat& to);

// Returns the name of shard `number`, from 1 on, of `n_shards`: "model-00001-of-00003.cfck". The
// only shard has none: "model.cfck".
std::string shard_name(std::string_view stem, std::size_t number, std::size_t n_shards,
                       const ArchiveFormat& format);
// True for the name of one of several shards, also with a variant:
// "model-00001-of-00003.fp16.safetensors".
bool is_shard_name(std::string_view name, const ArchiveFormat& format);

// Reads a whole file of at most `max_bytes`.
Result<std::string> read_text(const std::string& path, std::size_t max_bytes);

}  // namespace cfck::model
