// The index of a folder of shards: any text is either refused, or gives names of files inside the
// folder, and is renamed to an index of the same tensors. The first byte limits the number of
// values, unless it is zero.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "model/folder/shard_index.hpp"
#include "tests/fuzz/every_level.hpp"

namespace {

using cfck::model::ArchiveFormat;
using cfck::model::ShardIndex;
using cfck::test::require;

bool is_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) {
    return false;
  }
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") {
      return false;
    }
    at = end + 1;
  }
  return true;
}

// Requires an index of the same tensors, but one, in shards of the new format.
void require_renamed(const ShardIndex& index, std::string_view json, const ArchiveFormat& from,
                     const ArchiveFormat& to) {
  cfck::model::WeightMap left_out;
  if (!index.weight_map.empty()) {
    left_out.emplace_back(*index.weight_map.begin());
  }
  const auto renamed = cfck::model::rename_shards(json, from, to, left_out);
  require(renamed.has_value());
  const auto again = cfck::model::parse_shard_index(*renamed);
  require(again.has_value());
  require(again->weight_map.size() == index.weight_map.size() - left_out.size());
  for (const auto& [tensor, file] : again->weight_map) {
    const auto before = index.weight_map.find(tensor);
    require(before != index.weight_map.end());
    require(file == cfck::model::with_suffix(before->second, from, to));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto index = cfck::model::parse_shard_index(json);
  const std::size_t max_values = data[0] == 0 ? cfck::model::kMaxIndexValues : data[0];
  const auto limited = cfck::model::parse_shard_index(json, max_values);
  if (!index) {
    require(!index.error().message.empty() && !limited);
    return 0;
  }
  require(limited ? limited->weight_map == index->weight_map
                  : limited.error().code == cfck::ErrorCode::kLimitExceeded);
  const std::vector<std::string> files = index->files();
  require(std::is_sorted(files.begin(), files.end()));
  require(std::adjacent_find(files.begin(), files.end()) == files.end());
  require(std::all_of(files.begin(), files.end(), is_inside));
  const ArchiveFormat& from = cfck::model::safetensors_format();
  require_renamed(*index, json, from, cfck::model::counterpart(from));
  return 0;
}
