// Working memory of the entropy stage `rans`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "codec/entropy/rans/section.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

// Encoding tables, and the frequencies of which they were made.
struct RansEncodeTables {
  std::array<Frequencies, kMaxPlaces> made_of{};
  std::array<RansEncodeTable, kMaxPlaces> tables;
};

struct RansScratch {
  GrowingBuffer<std::uint16_t> words;
  RansReader reader;
  std::unique_ptr<RansEncodeTables> encode_tables;  // created at first use
};

}  // namespace cfck::codec
