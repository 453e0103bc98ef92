// What the warps of a block work in that encode a lossless chunk on a device, and what they say of
// it.
#pragma once

#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

inline constexpr unsigned kLosslessPlaces = kFirstValuePlace + kLosslessTables;
inline constexpr unsigned kMaxEncodeWarps = 16;
// Values that show whether values repeat.
inline constexpr unsigned kRepeatSample = 256;
// Room for layout, choice and tables, and for the states of a segment beside its words.
inline constexpr std::uint32_t kTableRoom = 1024;
inline constexpr std::uint32_t kLanesRoom = 1024;

// Memory of a chunk of n values in G groups, in the device's memory. Nothing of it need be set. The
// parts of a segment are where its first group would be.
template <class Format>
struct DeviceLosslessMemory {
  GroupCode* groups;               // G
  std::uint8_t* bins;              // G symbols
  std::uint8_t* zero_bits;         // G
  std::uint8_t* places;            // G, of those that are not all zero
  std::uint8_t* symbols;           // 128 G
  std::uint8_t* raw;               // 128 G values
  typename Format::Word* escapes;  // 128 G
  std::uint8_t* bin_escapes;       // 2 G
  std::uint16_t* words;            // 130 G, and 3 * 128 for each segment
  std::uint8_t* coded;  // 2 * 130 G, and for each segment 6 * 128 + kLanesRoom; and kTableRoom
  DeviceEncodeTable* tables;  // kLosslessPlaces
};

// What a segment has.
struct DeviceSegmentParts {
  std::uint32_t n_symbols = 0;
  std::uint32_t n_raw = 0;    // with the tail
  std::uint32_t n_coded = 0;  // without tables
};

// What a warp has found.
struct DeviceWarpFindings {
  std::uint32_t n_positive_zeros;
  std::uint32_t n_negative_zeros;
  std::uint32_t has_signs;
  std::uint32_t differs;      // from the first value
  std::uint32_t least_zeros;  // trailing, of groups that are not all zero
  std::uint32_t saved_bits;
};

// Of each warp.
struct DeviceEncodeWarp {
  DeviceWarpFindings found;
  std::uint8_t group[kGroupSize];
  WordStage stages[kMaxLaneSets];
  StateStrings<kMaxLaneSets> states;
  FrequencyStrings strings;
  DeviceTable table;
};

// Of a block of n_warps.
template <unsigned n_warps>
struct DeviceLosslessShared {
  std::uint32_t counts[kLosslessPlaces * kRansSymbols];
  std::uint16_t frequencies[kLosslessPlaces * kRansSymbols];
  std::uint64_t sample[kRepeatSample];
  std::uint32_t repeats;
  std::uint32_t table_bytes;
  SegmentHeader segments[kMaxSegments];
  DeviceSegmentParts parts[kMaxSegments];
  DeviceEncodeWarp warps[n_warps];
};

// What becomes of a chunk; the same in all lanes of all warps.
struct DeviceEncoded {
  bool needs_host = false;
  std::uint32_t n_bytes = 0;  // of the payload
};

}  // namespace cfck::codec
