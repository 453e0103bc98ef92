#include "format/write/pack_builder.hpp"

#include <utility>

#include "format/container/container.hpp"
#include "format/container/frame_bytes.hpp"

namespace cfck::format {

bool PackBuilder::fits(std::uint64_t payload_bytes) const noexcept {
  const std::uint64_t used = empty() ? kFrameHeaderBytes : frame_.size();
  return payload_bytes <= kMaxPackBytes - used;
}

bool PackBuilder::stays_open() const noexcept {
  return frame_.size() < kFrameHeaderBytes + kPackKeepOpenBytes;
}

std::uint64_t PackBuilder::add(ByteView payload) {
  if (empty()) {
    frame_.resize(kFrameHeaderBytes);
  }
  const std::uint64_t offset = frame_.size();
  frame_.insert(frame_.end(), payload.begin(), payload.end());
  return offset;
}

std::vector<std::byte> PackBuilder::take() {
  store_frame_header(frame_.data(), kPackTag, frame_.size());
  return std::exchange(frame_, {});
}

}  // namespace cfck::format
