// The memory of the warps that encode a lossless chunk on a device, and their result.
#pragma once

#include "codec/device_encode_batch.hpp"
#include "codec/entropy/rans/device_encode_section.cuh"
#include "codec/lossless/device/encode_layout.hpp"
#include "codec/lossless/device/repeats_device.cuh"

namespace cfck::codec {

// Memory of a chunk of n values in G groups, in the device's memory. Nothing of it need be set. The
// parts of a segment are where its first group would be.
template <class Format>
struct DeviceLosslessMemory : DeviceSectionMemory {
  GroupCode* groups;               // G
  std::uint8_t* zero_bits;         // G
  typename Format::Word* escapes;  // kGroupEscapes G, and kMoreEscapes for each part
  std::uint8_t* bin_escapes;       // 2 G
  DeviceEncodeTable* tables;       // kFirstValuePlace: of bins and trailing zero bits
};

// Finds the parts of the memory of a chunk, which begins at a multiple of 16.
template <class Format>
CFCK_DEVICE DeviceLosslessMemory<Format> lossless_memory_at(std::uint8_t* memory,
                                                            std::uint32_t n_values) {
  using Word = typename Format::Word;
  const LosslessEncodeLayout at = lossless_encode_layout(sizeof(Word), Format::kRawBits, n_values);
  return {section_memory_at(memory, at.section),
          reinterpret_cast<GroupCode*>(memory + at.groups),
          memory + at.zero_bits,
          reinterpret_cast<Word*>(memory + at.escapes),
          memory + at.bin_escapes,
          reinterpret_cast<DeviceEncodeTable*>(memory + at.tables)};
}

// A warp leaves here what it has found.
struct DeviceWarpFindings {
  std::uint32_t n_positive_zeros;
  std::uint32_t n_negative_zeros;
  std::uint32_t has_signs;
  std::uint32_t differs;      // from the first value
  std::uint32_t least_zeros;  // trailing, of groups that are not all zero
  std::uint32_t saved_bits;
};

// Each warp has one.
struct DeviceLosslessWarp : DeviceSectionWarp {
  DeviceWarpFindings found;
  std::uint8_t group[kGroupSize];
};

// A block that has encoded a chunk knows this of it, beside lengths.
struct DeviceLosslessState {
  std::uint32_t flags;
  std::uint32_t trailing_zero_base;
  std::uint32_t is_constant;
};

// A block of n_warps has one.
template <unsigned n_warps>
struct DeviceLosslessShared : DeviceSectionShared<kLosslessPlaces> {
  std::uint64_t sample[kRepeatSample];
  std::uint32_t repeats;
  DeviceLosslessState state;
  SegmentHeader segments[kMaxSegments];
  std::uint32_t n_escapes[kMaxSplitParts];  // of values
  // These are of values, by phase. Lanes look up what is anywhere in them: that takes the cache of
  // the device's memory a turn for each of its lines.
  DeviceEncodeTable tables[kPhases];
  DeviceLosslessWarp warps[n_warps];
};

}  // namespace cfck::codec
