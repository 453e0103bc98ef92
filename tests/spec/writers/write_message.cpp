// Writes a message of the bytes of a tensor, for spec/vectors/make_messages.py:
//   write_message DTYPE SHAPE ENTROPY CHUNK_ELEMS MAX_ABS_ERROR STEP DATA OUT
// SHAPE is "3x4", or "-" without dimensions; CHUNK_ELEMS may be 0, and so may MAX_ABS_ERROR and
// STEP, a learned one: 0 is none.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cfck/message.hpp"

namespace {

using namespace cfck;

Shape shape_of(const std::string& text) {
  Shape shape;
  std::istringstream parts(text);
  for (std::string part; text != "-" && std::getline(parts, part, 'x');) {
    shape.push_back(std::stoull(part));
  }
  return shape;
}

int write(char** arguments) {
  std::ifstream file(arguments[7], std::ios::binary);
  const std::vector<char> values{std::istreambuf_iterator<char>(file), {}};
  const TensorView tensor{
      *dtype_from_name(arguments[1]), shape_of(arguments[2]), std::as_bytes(std::span(values)), {}};
  MessageOptions options;
  options.entropy = *entropy_choice_from_name(arguments[3]);
  options.chunk_elems = static_cast<std::uint32_t>(std::stoul(arguments[4]));
  if (const double bound = std::stod(arguments[5]); bound > 0) {
    options.max_abs_error = bound;
  }
  if (const double step = std::stod(arguments[6]); step > 0) {
    options.learned_steps =
        LearnedSteps{.step = step, .bands = {0, 1, 2, 3, 4, 5, 6, 7}, .block = {8}};
  }
  std::vector<std::byte> out(max_message_bytes(options, tensor.dtype, tensor.shape).value());
  MessageWorkspace workspace;
  const std::uint64_t n_bytes = encode_message(tensor, options, out, workspace).value();
  std::ofstream(arguments[8], std::ios::binary)
      .write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(n_bytes));
  return EXIT_SUCCESS;
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 9) {
    std::cerr << "usage: write_message DTYPE SHAPE ENTROPY CHUNK_ELEMS MAX_ABS_ERROR STEP DATA "
                 "OUT\n";
    return EXIT_FAILURE;
  }
  try {
    return write(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
