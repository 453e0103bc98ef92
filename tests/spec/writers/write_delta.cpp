// Writes a chunk of codec delta, for spec/vectors/make_delta.py:
//   write_delta DTYPE N_ELEMS BASE VALUES OUT
#include <string>
#include <vector>

#include "codec/delta/delta.hpp"
#include "tests/spec/writers/files.hpp"

namespace {

using namespace cfck;

ByteView bytes_of(const std::vector<char>& chars) {
  return {reinterpret_cast<const std::byte*>(chars.data()), chars.size()};
}

void write_chunk(char** arguments) {
  const std::vector<char> base = test::read_file(arguments[3]);
  const std::vector<char> values = test::read_file(arguments[4]);
  codec::ChunkInfo info;
  info.dtype = dtype_from_name(arguments[1]).value();
  info.entropy = EntropyId::kRans;
  info.n_elems = std::stoull(arguments[2]);
  info.base = bytes_of(base);
  codec::Scratch scratch;
  codec::EncodedChunk coded;
  codec::delta_encoder().encode(info, bytes_of(values), scratch, coded).value();
  test::write_file(arguments[5], coded.payload);
}

}  // namespace

int main(int n_arguments, char** arguments) {
  return cfck::test::run_writer(n_arguments == 6, "write_delta DTYPE N_ELEMS BASE VALUES OUT",
                                arguments, write_chunk);
}
