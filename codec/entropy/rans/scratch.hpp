// Working memory of the entropy stage `rans`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "codec/entropy/rans/section.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

struct RansScratch {
  GrowingBuffer<std::uint16_t> words;
  RansReader reader;
  // Has those of explicit tables, by place. Created at first use.
  std::unique_ptr<std::array<RansEncodeTable, kMaxPlaces>> fitted_tables;
};

}  // namespace cfck::codec
