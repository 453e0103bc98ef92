// Memory that becomes a frame or a part of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/headroom_bytes.hpp"
#include "cfck/tensor.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// Magic number, length and tag of a skippable frame of `frame_bytes` bytes.
// Requires: 12 writable bytes at `to`; frame_bytes below 2^32 + 8.
inline void store_frame_header(std::byte* to, const Tag& tag, std::uint64_t frame_bytes) noexcept {
  store(to, kSkippableMagic);
  store(to + 4, static_cast<std::uint32_t>(frame_bytes - 8));
  std::memcpy(to + 8, tag.data(), tag.size());
}

// The header of a frame of tag CHNK, whose skippable part has `body_bytes` bytes behind it.
inline std::array<std::byte, kFrameHeaderBytes> chunk_frame_header(
    std::uint32_t body_bytes) noexcept {
  std::array<std::byte, kFrameHeaderBytes> header = {};
  store_frame_header(header.data(), kChunkTag, kFrameHeaderBytes + body_bytes);
  return header;
}

// There is place in front for a frame header and the zeros that align raw data.
using FrameBytes = HeadroomBytes;
static_assert(FrameBytes::kHeadroom >= kFrameHeaderBytes + kRawAlignment);

}  // namespace cfck::format
