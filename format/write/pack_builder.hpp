// Collects the payloads of small records into PACK frames (spec/format.md, section 4.3).
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::format {

// Builds one pack at a time, with its frame.
class PackBuilder {
 public:
  bool empty() const noexcept { return frame_.empty(); }
  // True if the open pack, or a new one, has space for a payload.
  bool fits(std::uint64_t payload_bytes) const noexcept;
  // A pack with few bytes is not written before a chunked record, but after it.
  bool stays_open() const noexcept;

  // Adds a payload; returns its offset from the start of the frame. Requires: fits().
  std::uint64_t add(ByteView payload);

  // Returns the frame, header included. The builder is empty afterwards. Requires: not empty().
  std::vector<std::byte> take();

 private:
  std::vector<std::byte> frame_;
};

}  // namespace cfck::format
