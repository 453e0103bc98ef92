// Decodes arbitrary bytes as a packet of gradients. Its hash is set right first, unless the first
// byte of the input, which is no part of the packet, is odd. All CPU levels do the same; indices
// ascend and are in range, and what is decoded survives encoding without loss.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cfck/gradients.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/sealed_packet.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using cfck::test::at_every_level;
using cfck::test::GuardedBytes;
using cfck::test::require;
using cfck::test::sealed_packet;

constexpr std::uint64_t kMaxValues = 1 << 14;

// `bytes`: all indices, and then all values.
void check(const std::vector<SparseShape>& shapes, const std::vector<std::byte>& bytes) {
  const std::size_t n_values = bytes.size() / 8;
  std::vector<std::uint32_t> indices(n_values);
  std::vector<float> values(n_values);
  std::copy_n(bytes.begin(), 4 * n_values, std::as_writable_bytes(std::span(indices)).begin());
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(4 * n_values), 4 * n_values,
              std::as_writable_bytes(std::span(values)).begin());
  std::vector<SparseTensor> tensors;
  std::size_t at = 0;
  for (const SparseShape& shape : shapes) {
    tensors.push_back({shape.n_elems, std::span(indices).subspan(at, shape.n_values),
                       std::span(values).subspan(at, shape.n_values)});
    at += shape.n_values;
  }
  GradientWorkspace workspace;
  std::vector<std::byte> packet(max_gradient_packet_bytes(tensors).value());
  std::vector<float> again(n_values);
  // Indices that do not ascend, or are out of range, are refused here.
  encode_gradients(tensors, {0, EncodeLevel::kFast}, packet, again, workspace).value();
  require(std::ranges::equal(std::as_bytes(std::span(again)), std::as_bytes(std::span(values))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const GuardedBytes packet(sealed_packet(data, size));
  const auto shapes = gradient_packet_shapes(packet.bytes());
  if (!shapes) {
    return 0;
  }
  std::uint64_t n_values = 0;
  for (const SparseShape& shape : *shapes) {
    n_values += shape.n_values;
  }
  if (n_values > kMaxValues) {
    return 0;
  }
  std::vector<std::byte> found(8 * n_values);
  const Result<void> decoded = at_every_level(found, [&](std::vector<std::byte>& out) {
    std::vector<std::uint32_t> indices(n_values);
    std::vector<float> values(n_values);
    GradientWorkspace workspace;
    const Result<void> done = decode_gradients(packet.bytes(), indices, values, workspace);
    const auto middle = std::ranges::copy(std::as_bytes(std::span(indices)), out.begin()).out;
    std::ranges::copy(std::as_bytes(std::span(values)), middle);
    return done;
  });
  require(decoded || !decoded.error().message.empty());
  if (decoded) {
    check(*shapes, found);
  }
  return 0;
}
