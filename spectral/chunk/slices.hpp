// Parts of a chunk that are processed one after another, so that intermediate results stay in
// cache: whole rows where blocks are transformed.
#pragma once

#include <algorithm>

#include "spectral/layout/geometry.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

class ChunkSlices {
 public:
  // Error: kCorrupt for blocks that the chunk cuts.
  static Result<ChunkSlices> create(const SpectralGeometry& geometry, bool transforms,
                                    std::uint64_t first_value, std::size_t n_values) {
    ChunkSlices slices;
    slices.n_values_ = n_values;
    slices.slice_values_ = std::min(kSliceValues, n_values);
    if (!transforms) {
      return slices;
    }
    CFCK_TRY_ASSIGN(slices.region_, geometry.region_of(first_value, n_values));
    if (geometry.is_simple() && geometry.n_rows() > 1) {
      slices.row_values_ = static_cast<std::size_t>(geometry.row_values());
      slices.slice_values_ =
          std::max<std::size_t>(kSliceValues / slices.row_values_, 1) * slices.row_values_;
    } else {
      slices.slice_values_ = n_values;
    }
    slices.slice_values_ = std::min(slices.slice_values_, n_values);
    return slices;
  }

  // Number of values of the longest slice.
  std::size_t slice_values() const { return slice_values_; }

  // Calls action(first, n, region) for each; the region is tiled by blocks, if there are any.
  template <class Action>
  void each(Action&& action) {
    for (std::size_t first = 0; first < n_values_; first += slice_values_) {
      const std::size_t n = std::min(slice_values_, n_values_ - first);
      if (row_values_ != 0) {
        region_.shape[0] = n / row_values_;
      }
      action(first, n, region_);
    }
  }

 private:
  static constexpr std::size_t kSliceValues = 4096;

  std::size_t n_values_ = 0;
  std::size_t slice_values_ = 0;
  std::size_t row_values_ = 0;  // 0: slices are not of rows
  SpectralGeometry::Region region_;
};

}  // namespace cfck::spectral
