// The second moment of the inputs of a tensor's rows, and the error compensation derived from
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/forks/forks.hpp"
#include "spectral/feedback/error_feedback.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// May be used by several threads at once. Results computed from the matrix are kept: trials of
// different steps ask for the same. Holds up to kKept + 1 matrices of n * n floats.
class SecondMoments {
 public:
  using Order = std::vector<std::uint32_t>;
  using Sides = std::vector<std::uint32_t>;

  // `values` is [n, n], row-major, finite.
  SecondMoments(std::vector<float> values, std::size_t n) : values_(std::move(values)), n_(n) {}

  std::size_t n() const { return n_; }

  bool operator==(const SecondMoments& other) const {
    return n_ == other.n_ && values_ == other.values_;
  }

  // The diagonal in the domain of transformed kernels with these sides; without sides, of values.
  std::vector<double> diagonal(const Sides& sides) const;
  // The compensation, with columns in this order.
  std::shared_ptr<const ErrorFeedback> feedback(const Sides& sides, const Order& order) const;
  // The weights of the compensation alone.
  std::vector<double> weights(const Sides& sides, const Order& order) const;

 private:
  struct Known {
    Sides sides;
    Order order;
    std::shared_ptr<const ErrorFeedback> feedback;
  };
  static constexpr std::size_t kKept = 4;         // results with coefficients
  static constexpr std::size_t kWeightsKept = 8;  // results without coefficients

  std::shared_ptr<const ErrorFeedback> find(std::vector<Known>& known, const Sides& sides,
                                            const Order& order, std::size_t most,
                                            bool has_coefficients) const;

  const std::vector<float> values_;
  const std::size_t n_;
  struct Results {
    std::vector<Known> known;  // the oldest first
    std::vector<Known> weights;
  };
  mutable PerProcess<Results> results_;
};

}  // namespace cfck::spectral
