// Writes a packet of gradients, for spec/vectors/make_gradients.py:
//   write_gradients VALUE_ERROR DATA OUT
// DATA has 32-bit words: the number of tensors, and for each its number of elements, its number of
// values, their indices, and the values as F32.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "cfck/gradients.hpp"

namespace {

using namespace cfck;

int write(char** arguments) {
  std::ifstream file(arguments[2], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
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
  std::ofstream(arguments[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(n_bytes));
  return EXIT_SUCCESS;
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 4) {
    std::cerr << "usage: write_gradients VALUE_ERROR DATA OUT\n";
    return EXIT_FAILURE;
  }
  try {
    return write(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
