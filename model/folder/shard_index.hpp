// The index of a folder of shards, model.safetensors.index.json or model.cfck.index.json.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/status.hpp"
#include "model/archive_format.hpp"

namespace cfck::model {

// A longer index is refused.
inline constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

// Contents of model.safetensors.index.json or model.cfck.index.json.
struct ShardIndex {
  std::map<std::string, std::string> weight_map;  // tensor to file, relative to the folder
  std::vector<std::string> files() const;         // sorted, each once
};

// More values than any model has tensors; bounds the memory that an index takes when it is parsed.
inline constexpr std::size_t kMaxIndexValues = std::size_t{1} << 21;

// Checks the JSON, duplicate keys, and that no file name is absolute or has a
// part "..". Errors: kCorrupt, kLimitExceeded for more values, of any kind, than given.
Result<ShardIndex> parse_shard_index(std::string_view json,
                                     std::size_t max_values = kMaxIndexValues);

// Returns the same JSON with the suffix of every shard's name changed, without the tensors of
// `left_out`.
Result<std::string> rename_shards(std::string_view json, const ArchiveFormat& from,
                                  const ArchiveFormat& to,
                                  const std::set<std::string>& left_out = {});

// True if this is a name that model libraries give to the index of shards of this format:
// "model.safetensors.index.json", "adapter_model.safetensors.index.json", and with a variant
// "model.fp16.safetensors.index.json" or "model.safetensors.index.fp16.json".
bool is_index_name(std::string_view name, const ArchiveFormat& format);

// Returns the name of the index for shards of the format `to`. Requires: is_index_name(name, from).
std::string renamed_index(std::string_view name, const ArchiveFormat& from,
                          const ArchiveFormat& to);

// Reads a whole file of at most `max_bytes`.
Result<std::string> read_text(const std::string& path, std::size_t max_bytes);

}  // namespace cfck::model
