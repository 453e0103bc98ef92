// Passes over the coefficients of a tensor, some rows of blocks at a time, on several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/threads.hpp"
#include "cfck/training.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/training/weight_layout.hpp"

namespace cfck::spectral {

// Some rows of blocks.
struct RowRange {
  std::uint64_t first_row = 0;
  std::uint64_t first_value = 0;
  std::size_t n_values = 0;
};

// Ranges do not depend on the number of threads.
class WeightRanges {
 public:
  explicit WeightRanges(const WeightLayout& layout);

  std::size_t size() const { return n_; }
  RowRange range(std::size_t i) const;
  // Calls action(row, first value in the range, number of values) for the rows of blocks of a
  // range.
  template <class Action>
  void each_row(const RowRange& range, Action&& action) const {
    std::uint64_t row = range.first_row;
    for (std::size_t at = 0; at < range.n_values; at += layout_.row_values, ++row) {
      action(row, at, std::min<std::size_t>(layout_.row_values, range.n_values - at));
    }
  }

 private:
  const WeightLayout& layout_;
  std::uint64_t rows_ = 1;  // of each range
  std::size_t n_ = 0;
};

// Turns values into coefficients and back, in place.
void transform_range(const WeightLayout& layout, std::span<float> values);
void transform_range_back(const WeightLayout& layout, std::span<float> coefficients);

// Derivatives by position in a row of blocks, for each range, to be added up in their order.
class PositionSums {
 public:
  PositionSums(const WeightLayout& layout, std::size_t n_ranges);

  float* of(std::size_t range) { return sums_.data() + range * layout_.row_values; }
  void add_up(const TrainingStepGradients& gradients) const;

 private:
  const WeightLayout& layout_;
  std::vector<float> sums_;
};

// Error: kInvalidArgument.
Result<void> check_gradients(const WeightLayout& layout, const TrainingStepGradients& gradients);

}  // namespace cfck::spectral
