// Decodes arbitrary bytes as a message. The hash is set right first, unless the first byte of the
// input, which is no part of the message, is odd. All CPU levels do the same; what is decoded
// survives encoding.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cfck/message.hpp"
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

void check_encoding_again(const MessageInfo& info, const std::vector<std::byte>& values,
                          MessageWorkspace& workspace) {
  const TensorView tensor{info.dtype, info.shape, values, {}};
  std::vector<std::byte> message(max_message_bytes({}, info.dtype, info.shape).value());
  message.resize(encode_message(tensor, {}, message, workspace).value());
  std::vector<std::byte> again(values.size());
  decode_message(message, again, workspace).value();
  require(again == values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const GuardedBytes message(sealed_packet(data, size));
  static MessageWorkspace workspace;
  const auto info = message_info(message.bytes());
  if (info && info->n_bytes > kMaxBytes) {
    return 0;
  }
  std::vector<std::byte> values(info ? info->n_bytes : 0);
  const Result<void> decoded = at_every_level(values, [&](std::vector<std::byte>& out) {
    return decode_message(message.bytes(), out, workspace);
  });
  require(decoded || !decoded.error().message.empty());
  if (decoded) {
    require(info.has_value());
    check_encoding_again(*info, values, workspace);
  }
  return 0;
}
