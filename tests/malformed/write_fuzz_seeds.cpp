// Writes the small files into a folder: the corpus of tests/fuzz/fuzz_index.cpp, to be made again
// when their layout has changed.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/malformed/small_files.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_fuzz_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const cfck::test::SmallFile& file : cfck::test::small_files()) {
    std::ofstream out(folder / file.name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(file.bytes.data()),
              static_cast<std::streamsize>(file.bytes.size()));
    if (!out.flush()) {
      std::fprintf(stderr, "cannot write %s\n", (folder / file.name).c_str());
      return 1;
    }
  }
  return 0;
}
