// Short ways to encode and decode messages.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cfck/message.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::test {

using Bytes = std::vector<std::byte>;
using codec::make_values;
using codec::Pattern;

inline std::uint64_t count(const Shape& shape) { return n_elems(shape).value(); }

// A tensor that owns its bytes.
struct Tensor {
  DType dtype;
  Shape shape;
  Bytes bytes;

  Tensor(DType type, Shape dims, Bytes values)
      : dtype(type), shape(std::move(dims)), bytes(std::move(values)) {}
  Tensor(DType type, const Shape& dims, Pattern pattern, std::uint64_t seed = 1)
      : Tensor(type, dims, Bytes()) {
    if (count(dims) != 0) {
      bytes = make_values(type, pattern, count(dims), seed);
    }
  }
  TensorView view() const { return {dtype, shape, bytes, {}}; }
};

// Throws BadResult where the tensor is refused.
inline Bytes encode(const Tensor& tensor, const MessageOptions& options,
                    MessageWorkspace& workspace) {
  Bytes out(max_message_bytes(options, tensor.dtype, tensor.shape).value());
  out.resize(encode_message(tensor.view(), options, out, workspace).value());
  return out;
}
inline Bytes encode(const Tensor& tensor, const MessageOptions& options = {}) {
  MessageWorkspace workspace;
  return encode(tensor, options, workspace);
}

inline Bytes decode(ByteView message, MessageWorkspace& workspace) {
  Bytes out(message_info(message).value().n_bytes);
  decode_message(message, out, workspace).value();
  return out;
}
inline Bytes decode(ByteView message) {
  MessageWorkspace workspace;
  return decode(message, workspace);
}

// Writes the right hash behind what was changed.
void seal(Bytes& message);

}  // namespace cfck::test
