#include "tests/message/messages.hpp"

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"

namespace cfck::test {

void seal(Bytes& message) {
  const ByteView before = ByteView(message).first(message.size() - 8);
  store<std::uint64_t>(message.data() + before.size(), tiled_hash64(before));
}

}  // namespace cfck::test
