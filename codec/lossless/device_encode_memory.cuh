// What the encoder of lossless chunks on a device works in, and what it says of a chunk.
#pragma once

#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

inline constexpr unsigned kLosslessPlaces = kFirstValuePlace + kLosslessTables;
// Places of the values that show whether they repeat.
inline constexpr unsigned kRepeatSample = 256;

// Memory of a chunk of n values in G groups, in the device's memory. Nothing of it need be set.
template <class Format>
struct DeviceLosslessMemory {
  GroupCode* groups;               // G
  std::uint8_t* bins;              // G symbols
  std::uint8_t* zero_bits;         // G
  std::uint8_t* places;            // G, of those that are not all zero
  std::uint8_t* symbols;           // n
  std::uint8_t* raw;               // n * (bits of a value) / 8 + G
  typename Format::Word* escapes;  // n
  std::uint8_t* bin_escapes;       // 2 G
  std::uint16_t* words;            // n + 2 G + 3 * 128
  std::uint8_t* coded;             // 2 n + 4 G + 2,048 for each segment
  DeviceEncodeTable* tables;       // kLosslessPlaces
};

// Where the parts of a segment are in the memory of its chunk.
struct DeviceSegmentParts {
  std::uint32_t first_symbol = 0;
  std::uint32_t n_symbols = 0;
  std::uint32_t first_place = 0;
  std::uint32_t first_raw = 0;
  std::uint32_t n_raw = 0;  // with the tail
  std::uint32_t first_escape = 0;
  std::uint32_t first_coded = 0;
  std::uint32_t n_coded = 0;
};

struct DeviceLosslessShared {
  std::uint32_t counts[kLosslessPlaces * kRansSymbols];
  std::uint16_t frequencies[kLosslessPlaces * kRansSymbols];
  std::uint64_t sample[kRepeatSample];
  std::uint8_t group[kGroupSize];
  WordStage stages[kMaxLaneSets];
  StateStrings<kMaxLaneSets> states;
  FrequencyStrings strings;
  DeviceTable table;
  SymbolsHeader header;
  DeviceSegmentParts parts[kMaxSegments];
};

// What becomes of a chunk; the same in all lanes.
struct DeviceEncoded {
  bool needs_host = false;
  std::uint32_t n_bytes = 0;  // of the payload, in `out`
};

}  // namespace cfck::codec
