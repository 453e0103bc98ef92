// Room that a block which encodes a chunk on a device has for the section of its symbols, as the
// host reserves it and kernels find it (codec/entropy/rans/device_encode_section.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

// Room for layout, choice and tables, of which codec direct may have 40 with 60 bytes each; and for
// the states of a segment.
inline constexpr std::uint32_t kTableRoom = 2688;
inline constexpr std::uint32_t kStatesRoom = 1024;
// Room for words of a segment, for each group and beside: half a word for a value. A chunk that
// needs more is left to the host: hardly any that gets shorter does.
inline constexpr std::uint32_t kGroupWords = kGroupSize / 2 + 2;
inline constexpr std::uint32_t kMoreWords = 3 * kGroupSize;
// The segments of a chunk are split in parts, so that there are about as many as warps.
inline constexpr unsigned kMaxSplitParts = 16;

// Where the parts of the memory of a chunk are: offsets in bytes, each a multiple of 16.
class DeviceMemoryLayout {
 public:
  CFCK_HD constexpr std::size_t take(std::size_t n_bytes) {
    const std::size_t at = n_bytes_;
    n_bytes_ += (n_bytes + 15) / 16 * 16;
    return at;
  }
  CFCK_HD constexpr std::size_t n_bytes() const { return n_bytes_; }  // of all of it

 private:
  std::size_t n_bytes_ = 0;
};

// The parts of DeviceSectionMemory.
struct DeviceSectionLayout {
  std::size_t bins = 0;
  std::size_t places = 0;
  std::size_t symbols = 0;
  std::size_t raw = 0;
  std::size_t words = 0;
  std::size_t states = 0;
  std::size_t coded = 0;
};

CFCK_HD constexpr DeviceSectionLayout section_layout(std::size_t n_groups, std::size_t n_segments,
                                                     std::size_t raw_bits,
                                                     DeviceMemoryLayout& all) {
  DeviceSectionLayout layout;
  layout.bins = all.take(n_groups);
  layout.places = all.take(n_groups);
  layout.symbols = all.take(n_groups * kGroupSize);
  layout.raw = all.take(n_groups * kGroupSize / 8 * raw_bits);
  layout.words = all.take(2 * (n_groups * kGroupWords + n_segments * kMoreWords));
  layout.states = all.take(n_segments * kGroupSize * sizeof(std::uint32_t));
  layout.coded = all.take(kTableRoom + n_segments * kStatesRoom);
  return layout;
}

}  // namespace cfck::codec
