// Writes a message of the bytes of a tensor, for spec/vectors/make_messages.py:
//   write_message DTYPE SHAPE ENTROPY CHUNK_ELEMS MAX_ABS_ERROR STEP DATA OUT
// SHAPE is "3x4", or "-" without dimensions; CHUNK_ELEMS may be 0, and so may MAX_ABS_ERROR and
// STEP, a learned one: 0 is none.
#include <sstream>
#include <string>
#include <vector>

#include "cfck/message.hpp"
#include "tests/spec/writers/files.hpp"

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

void write_vector(char** arguments) {
  const std::vector<char> values = test::read_file(arguments[7]);
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
  test::write_file(arguments[8], ByteView(out).first(n_bytes));
}

}  // namespace

int main(int n_arguments, char** arguments) {
  return cfck::test::run_writer(
      n_arguments == 9, "write_message DTYPE SHAPE ENTROPY CHUNK_ELEMS MAX_ABS_ERROR STEP DATA OUT",
      arguments, write_vector);
}
