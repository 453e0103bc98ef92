// Coefficients for prediction inside kernels: least squares from integer moments
// (codec/direct/spec.md, section 7.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

class PredictionFit {
 public:
  // Requires: kernel_size >= 2.
  explicit PredictionFit(std::uint32_t kernel_size);

  // Adds the whole kernels of a chunk's indices.
  void add(std::uint64_t first_value, std::span<const std::int32_t> indices);

  // Returns the coefficients; empty if no position gains.
  std::vector<std::int16_t> solve() const;

 private:
  std::int64_t moment(std::uint32_t s, std::uint32_t t) const {
    return moments_[std::size_t{s} * kernel_size_ + t];
  }
  bool gains(std::uint32_t t, std::span<const std::int16_t> row) const;

  std::uint32_t kernel_size_;
  std::uint64_t n_kernels_ = 0;
  std::vector<std::int64_t> moments_;  // s <= t
};

}  // namespace cfck::codec
