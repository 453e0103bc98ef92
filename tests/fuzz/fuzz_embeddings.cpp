// Decodes arbitrary bytes as a packet of rows. Its hash is set right first, unless the first byte
// of the input, which is no part of the packet, is odd. All CPU levels do the same; what is decoded
// survives encoding without loss.
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "cfck/embeddings.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/sealed_packet.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using cfck::test::at_every_level;
using cfck::test::GuardedBytes;
using cfck::test::require;
using cfck::test::sealed_packet;

constexpr std::uint64_t kMaxBytes = 1 << 16;

std::uint64_t bytes_of(const RowShape& shape) {
  return std::uint64_t{shape.n_rows} * shape.row_elems * (bits_per_element(shape.dtype) / 8);
}

// Keys as a sender may have had them: the first n_unique differ.
std::vector<std::int64_t> keys_of(const RowShape& shape) {
  std::vector<std::int64_t> keys(shape.needs_keys ? shape.n_rows : 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<std::int64_t>(i % shape.n_unique);
  }
  return keys;
}

Result<void> decode(ByteView packet, const std::vector<RowShape>& shapes,
                    const std::vector<std::vector<std::int64_t>>& keys, MutableBytes out) {
  std::vector<DecodedRows> batches;
  std::size_t at = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    batches.push_back({out.subspan(at, bytes_of(shapes[i])), keys[i]});
    at += bytes_of(shapes[i]);
  }
  RowWorkspace workspace;
  return decode_rows(packet, batches, workspace);
}

void check(const std::vector<RowShape>& shapes, const std::vector<std::byte>& found) {
  std::vector<RowBatch> batches;
  std::size_t at = 0;
  for (const RowShape& shape : shapes) {
    batches.push_back({shape.dtype,
                       shape.n_rows,
                       shape.row_elems,
                       ByteView(found).subspan(at, bytes_of(shape)),
                       0,
                       {}});
    at += bytes_of(shape);
  }
  std::vector<std::byte> packet(max_row_packet_bytes(batches).value());
  RowWorkspace workspace;
  packet.resize(encode_rows(batches, {}, packet, workspace).value());
  std::vector<std::byte> again(found.size());
  const std::vector<std::vector<std::int64_t>> no_keys(shapes.size());
  decode(packet, shapes, no_keys, again).value();
  require(again == found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const GuardedBytes packet(sealed_packet(data, size));
  const auto shapes = row_packet_shapes(packet.bytes());
  if (!shapes) {
    return 0;
  }
  std::uint64_t n_bytes = 0;
  std::uint64_t n_rows = 0;
  std::vector<std::vector<std::int64_t>> keys;
  for (const RowShape& shape : *shapes) {
    n_bytes += bytes_of(shape);
    n_rows += shape.n_rows;
    if (n_bytes > kMaxBytes || n_rows > kMaxBytes) {
      return 0;
    }
    keys.push_back(keys_of(shape));
  }
  std::vector<std::byte> found(n_bytes);
  const Result<void> decoded = at_every_level(found, [&](std::vector<std::byte>& out) {
    return decode(packet.bytes(), *shapes, keys, out);
  });
  require(decoded || !decoded.error().message.empty());
  if (decoded) {
    check(*shapes, found);
  }
  return 0;
}
