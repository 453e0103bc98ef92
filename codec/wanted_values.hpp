// A lossy codec names what it wants to know of the values of a tensor before it plans: whoever has
// them elsewhere finds out all of it at once.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/options.hpp"
#include "device/batches.hpp"

namespace cfck::codec {

struct ValueRange {
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
};

// Values of one chunk and one row, of which a statistic is found.
struct ValuePart {
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t first_of_row = 0;
};

using device::PartFacts;
using device::PartStatistic;

// The statistic that a bound follows from.
constexpr PartStatistic statistic_of(BoundKind kind) {
  return kind == BoundKind::kRel     ? PartStatistic::kRange
         : kind == BoundKind::kSigma ? PartStatistic::kMoments
                                     : PartStatistic::kNone;
}

struct WantedValues {
  std::vector<ValueRange> ranges;  // to be read
  PartStatistic statistic = PartStatistic::kNone;
  std::vector<ValuePart> parts;
};

}  // namespace cfck::codec
