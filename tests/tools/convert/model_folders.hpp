// Small folders of models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/tools/program.hpp"

namespace cfck::test {

// A safetensors file with the tensor, F32 [32,32].
inline std::string shard(const std::string& tensor, std::uint64_t seed) {
  return with_header("{\"" + tensor +
                         "\":{\"dtype\":\"F32\",\"shape\":[32,32],"
                         "\"data_offsets\":[0,4096]}}  ",
                     noise(4096, seed));
}

// The spaces are odd on purpose: they must be preserved.
inline constexpr const char* kIndex =
    "{\"metadata\": {\"total_size\": 8192},\n   \"weight_map\": {\n"
    "\"b.w\": \"model-00002-of-00002.safetensors\", \"a.w\": "
    "\"model-00001-of-00002.safetensors\"}}";

// Two shards "a.w" and "b.w" with an index, and other files.
inline void make_model(const std::string& folder) {
  write_file(folder + "/model-00001-of-00002.safetensors", shard("a.w", 1));
  write_file(folder + "/model-00002-of-00002.safetensors", shard("b.w", 2));
  write_file(folder + "/model.safetensors.index.json", kIndex);
  write_file(folder + "/config.json", "{\"hidden_size\": 32}");
  write_file(folder + "/tokenizer/vocab.txt", "a\nb\n");
  write_file(folder + "/.cache/lock", "x");
  write_file(folder + "/run.sh", "#!/bin/sh\n");
  std::filesystem::permissions(folder + "/run.sh", std::filesystem::perms::owner_all);
}

}  // namespace cfck::test
