// Writes a packet of gradients, for spec/vectors/make_gradients.py:
//   write_gradients VALUE_ERROR DATA OUT
// DATA has 32-bit words: the number of tensors, and for each its number of elements, its number of
// values, their indices, and the values as F32.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cfck/gradients.hpp"
#include "tests/spec/writers/files.hpp"

namespace {

using namespace cfck;

void write_vector(char** arguments) {
  const std::vector<char> bytes = test::read_file(arguments[2]);
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), 4 * words.size());
  std::vector<float> floats(words.size());
  std::memcpy(floats.data(), words.data(), 4 * words.size());
  std::vector<SparseTensor> tensors;
  std::size_t at = 1;
  std::size_t n_values = 0;
  for (std::uint32_t left = words.at(0); left > 0; --left) {
    const std::uint32_t n = words.at(at + 1);
    tensors.push_back({words.at(at), std::span(words).subspan(at + 2, n),
                       std::span(floats).subspan(at + 2 + n, n)});
    at += 2 + 2 * std::size_t{n};
    n_values += n;
  }
  GradientPacketOptions options;
  options.value_error = std::stod(arguments[1]);
  std::vector<std::byte> out(max_gradient_packet_bytes(tensors).value());
  std::vector<float> decoded(n_values);
  GradientWorkspace workspace;
  const std::uint64_t n_bytes = encode_gradients(tensors, options, out, decoded, workspace).value();
  test::write_file(arguments[3], ByteView(out).first(n_bytes));
}

}  // namespace

int main(int n_arguments, char** arguments) {
  return cfck::test::run_writer(n_arguments == 4, "write_gradients VALUE_ERROR DATA OUT", arguments,
                                write_vector);
}
