// The files of write_direct.cpp and write_spectral.cpp: CASES.json and DATA.bin, made by tests in
// Python, and OUT.bin with four strings for each case, a u32 length before each: the preamble, the
// payload, the decoded values, the name of the error code.
#pragma once

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "codec/codec.hpp"

namespace cfck::test {

using Bytes = std::vector<std::byte>;

struct Outcome {
  Bytes preamble;
  Bytes payload;
  Bytes decoded;
  std::string error;
};

inline Bytes read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

// The part of DATA.bin that a pair (offset, length) names.
inline ByteView part(ByteView data, const nlohmann::json& place) {
  return data.subspan(place.at(0).get<std::size_t>(), place.at(1).get<std::size_t>());
}

inline Bytes copy_of(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

template <class T>
T value(const Result<T>& result) {
  if (!result) {
    throw std::runtime_error(result.error().to_string());
  }
  return *result;
}

inline void append(std::ofstream& out, const void* bytes, std::size_t n) {
  const auto length = static_cast<std::uint32_t>(n);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(n));
}

// The program `name`: plays every case.
template <class Play>
int play_cases(int argc, char** argv, const char* name, Play&& play) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s CASES.json DATA.bin OUT.bin\n", name);
    return 2;
  }
  try {
    const Bytes text = read_all(argv[1]);
    const auto* first = reinterpret_cast<const char*>(text.data());
    const auto cases = nlohmann::json::parse(first, first + text.size());
    const Bytes data = read_all(argv[2]);
    std::ofstream out(argv[3], std::ios::binary);
    out.exceptions(std::ios::failbit | std::ios::badbit);
    for (const nlohmann::json& item : cases) {
      const Outcome outcome = play(item, ByteView(data));
      for (const Bytes* bytes : {&outcome.preamble, &outcome.payload, &outcome.decoded}) {
        append(out, bytes->data(), bytes->size());
      }
      append(out, outcome.error.data(), outcome.error.size());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
  return 0;
}

}  // namespace cfck::test
