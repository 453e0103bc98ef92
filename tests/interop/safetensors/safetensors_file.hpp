// Builds safetensors files, whole and broken, byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::test {

inline std::vector<std::byte> safetensors_file(std::string_view json, std::string_view data,
                                               std::uint64_t length) {
  std::vector<std::byte> file(8 + json.size() + data.size());
  std::memcpy(file.data(), &length, 8);
  if (!json.empty()) std::memcpy(file.data() + 8, json.data(), json.size());
  if (!data.empty()) std::memcpy(file.data() + 8 + json.size(), data.data(), data.size());
  return file;
}

inline std::vector<std::byte> safetensors_file(std::string_view json, std::string_view data = {}) {
  return safetensors_file(json, data, json.size());
}

// One entry of a header: "name":{...}.
inline std::string entry(const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

}  // namespace cfck::test
