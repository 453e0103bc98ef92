// A part of a record to try parameters on.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/lossy.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Some rows of a record, as a tensor of their own.
struct SpectralSample {
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> values;
  std::vector<std::uint64_t> rows;  // of the record; where it is neither whole nor a piece
  bool is_whole = true;

  // True if the sample is not a piece of a row or of a vector.
  bool is_shaped() const { return is_whole || !rows.empty(); }
};

// Takes whole rows, spread over the record, in runs of `n_together` of which each begins at a
// multiple of that; or a piece of one row, if they are long. Errors: those of `read`.
Result<SpectralSample> take_sample(const LossyRecord& record, const ReadValues& read,
                                   std::uint64_t n_together);

// True if rows of a matrix resemble those next to them so much that a transform along axis 0 is
// worth a try. Errors: those of `read`.
Result<bool> are_rows_similar(const LossyRecord& record, const ReadValues& read);

}  // namespace cfck::spectral
