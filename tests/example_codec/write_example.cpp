// Writes the file of example_file.hpp, for programs that do not have its codec.
#include <fstream>

#include "tests/example_codec/example_file.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  const cfck::test::Bytes bytes = cfck::test::example_file();
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return file.flush() ? 0 : 1;
}
