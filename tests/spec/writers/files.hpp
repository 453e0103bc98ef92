// Programs that write vectors read and write files here, and say what is wrong with a call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::test {

inline std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const char* path, ByteView bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Calls `write(arguments)`, and returns the exit code of the program.
inline int run_writer(bool is_called_right, const char* usage, char** arguments,
                      void (*write)(char**)) {
  if (!is_called_right) {
    std::cerr << "usage: " << usage << '\n';
    return EXIT_FAILURE;
  }
  try {
    write(arguments);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

}  // namespace cfck::test
