// The memory of the warps that encode a lossless chunk on a device, and their result.
#pragma once

#include "codec/device_encode_batch.hpp"
#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/lossless/device/encode_layout.hpp"
#include "codec/lossless/device/repeats_device.cuh"

namespace cfck::codec {

// Memory of a chunk of n values in G groups, in the device's memory. Nothing of it need be set. The
// parts of a segment are where its first group would be.
template <class Format>
struct DeviceLosslessMemory {
  GroupCode* groups;               // G
  std::uint8_t* bins;              // G symbols
  std::uint8_t* zero_bits;         // G
  std::uint8_t* places;            // G: the phases of those that are not all zero
  std::uint8_t* symbols;           // 128 G, as split_group_of() leaves them
  std::uint8_t* raw;               // 16 G for each raw bit
  typename Format::Word* escapes;  // kGroupEscapes G, and kMoreEscapes for each part
  std::uint8_t* bin_escapes;       // 2 G
  std::uint16_t* words;            // kGroupWords G, and kMoreWords for each segment
  std::uint32_t* states;           // 128 for each segment
  std::uint8_t* coded;             // kTableRoom, and kStatesRoom for each segment
  DeviceEncodeTable* tables;       // kFirstValuePlace: of bins and trailing zero bits
};

// Finds the parts of the memory of a chunk, which begins at a multiple of 16.
template <class Format>
CFCK_DEVICE DeviceLosslessMemory<Format> lossless_memory_at(std::uint8_t* memory,
                                                            std::uint32_t n_values) {
  using Word = typename Format::Word;
  const LosslessEncodeLayout at = lossless_encode_layout(sizeof(Word), Format::kRawBits, n_values);
  return {reinterpret_cast<GroupCode*>(memory + at.groups),
          memory + at.bins,
          memory + at.zero_bits,
          memory + at.places,
          memory + at.symbols,
          memory + at.raw,
          reinterpret_cast<Word*>(memory + at.escapes),
          memory + at.bin_escapes,
          reinterpret_cast<std::uint16_t*>(memory + at.words),
          reinterpret_cast<std::uint32_t*>(memory + at.states),
          memory + at.coded,
          reinterpret_cast<DeviceEncodeTable*>(memory + at.tables)};
}

// Lengths of the parts of a segment.
struct DeviceSegmentParts {
  std::uint32_t n_symbols = 0;
  std::uint32_t n_raw = 0;     // with the tail
  std::uint32_t n_states = 0;  // of what stands in front of the words
  std::uint32_t n_words[kMaxLaneSets] = {};
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
  StateStrings<kMaxLaneSets> states;
  FrequencyStrings strings;
  DeviceTable table;
};

// A block of n_warps has one.
template <unsigned n_warps>
struct DeviceLosslessShared {
  std::uint32_t item;  // of the batch
  std::uint32_t counts[kLosslessPlaces * kRansSymbols];
  std::uint16_t frequencies[kLosslessPlaces * kRansSymbols];
  std::uint64_t sample[kRepeatSample];
  std::uint32_t repeats;
  std::uint32_t table_bytes;
  std::uint32_t is_too_long;  // some part for its room
  std::uint64_t place;        // of the payload
  SegmentHeader segments[kMaxSegments];
  DeviceSegmentParts parts[kMaxSegments];
  std::uint32_t n_escapes[kMaxSplitParts];  // of values
  // These are of values, by phase. Lanes look up what is anywhere in them: that takes the cache of
  // the device's memory a turn for each of its lines.
  DeviceEncodeTable tables[kPhases];
  DeviceEncodeWarp warps[n_warps];
};

}  // namespace cfck::codec
