// Bounds that depend on the values: on their range or on their deviation.
#pragma once

#include <vector>

#include "codec/direct/chunk/direct.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

// Error bounds of the values. Several rows have one entry each, 0 where a row has to be kept
// exactly.
struct DerivedBounds {
  double bound = 0;
  std::vector<double> rows;

  DirectBounds view() const { return {bound, rows}; }
  // True if no value may have any representable error.
  bool is_zero() const;
};

// Computes the bounds that record.bound means for these values; never above it, and below it
// by less than a 2^-19th. Uses the finite values, in one or two passes. Errors: those of
// `read`.
//
// Range: the maximum value minus the minimum. Deviation: the square root of the mean of (x -
// mean)^2 over all values, in binary64, by pieces (codec/common/fixed_sums.hpp) whose means and
// squares are combined in order, first those of each part, then those of parts (Chan, Golub,
// LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances", 1979). A
// part has the values of one chunk, and with bounds by row of one row.
Result<DerivedBounds> derive_bounds(const LossyRecord& record, const ReadValues& read);

// Says which facts of parts derive_bounds() takes in place of reading.
void want_facts(const LossyRecord& record, WantedValues& wanted);

// True if the root mean square of the finite values is below `bound`: squares are added up by the
// same pieces.
Result<bool> is_near_zero(const LossyRecord& record, double bound, const ReadValues& read);

}  // namespace cfck::codec
