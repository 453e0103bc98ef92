// The memory of the warps that encode a lossless chunk on a device, and their result.
#pragma once

#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

inline constexpr unsigned kLosslessPlaces = kFirstValuePlace + kLosslessTables;
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

// Lengths of the parts of a segment.
struct DeviceSegmentParts {
  std::uint32_t n_symbols = 0;
  std::uint32_t n_raw = 0;    // with the tail
  std::uint32_t n_coded = 0;  // without tables
};

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
struct DeviceEncodeWarp {
  DeviceWarpFindings found;
  std::uint8_t group[kGroupSize];
  WordStage stages[kMaxLaneSets];
  StateStrings<kMaxLaneSets> states;
  FrequencyStrings strings;
  DeviceTable table;
};

// A block of n_warps has one.
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

// All lanes of all warps are told the same of a chunk.
struct DeviceEncoded {
  bool needs_host = false;
  std::uint32_t n_bytes = 0;  // of the payload
};

}  // namespace cfck::codec
