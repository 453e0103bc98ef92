// Errors of the values of one tensor relative to another.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>

#include "tools/inspect/tensor_set.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/measure/scaled_sum.hpp"

namespace cfck::tools {

class ErrorScan;  // in tensor_errors.cpp

// Errors over the values that are finite in both. NaN and infinities have no error: equal bits are
// equal, all others are counted. Elements that both repeat (StoredTensor::repeats) are counted
// once, unless `check` needs all.
class TensorErrors {
 public:
  // Reads both piece by piece; `check`, if there is one, gets these values too. Requires: equal
  // dtype and shape.
  static Result<TensorErrors> measure(const TensorSet& set, const StoredTensor& tensor,
                                      const TensorSet& reference_set, const StoredTensor& reference,
                                      BoundCheck* check = nullptr);
  // Adds the values of another tensor. Its relative error stays relative to its
  // own range.
  void add(const TensorErrors& other);

  std::uint64_t n_values() const { return n_values_; }
  // Number of values of which at least one is NaN or infinite, with different bits.
  std::uint64_t n_special_mismatches() const { return n_special_mismatches_; }
  double max_abs() const { return max_abs_; }
  // Maximum error relative to the range of the reference; infinite if that is 0 and the error is
  // not.
  double max_rel() const { return max_rel_; }
  double rmse() const;
  // In dB, relative to the range of the reference; infinite without error.
  double psnr() const;
  // Squares of the errors relative to those of the reference, in dB; minus infinity without error,
  // infinite if only the reference is 0.
  double nmse() const;
  // Returns 1 if both are 0 everywhere, 0 if only one is.
  double cosine() const;

  nlohmann::ordered_json json() const;
  std::string text() const;

 private:
  friend class ErrorScan;

  static Result<void> measure_once(const TensorSet& set, const StoredTensor& tensor,
                                   const TensorSet& reference_set, const StoredTensor& reference,
                                   ErrorScan& scan);
  static TensorErrors finished(TensorErrors sums);

  std::uint64_t n_values_ = 0;
  std::uint64_t n_finite_ = 0;  // in both
  std::uint64_t n_special_mismatches_ = 0;
  double max_abs_ = 0;
  double max_rel_ = 0;
  double min_ = std::numeric_limits<double>::infinity();  // of the reference
  double most_ = -std::numeric_limits<double>::infinity();
  ScaledSum squares_;
  ScaledSum product_;
  ScaledSum norm_;
  ScaledSum reference_norm_;
};

// JSON has no infinity and no NaN: these become strings.
nlohmann::ordered_json number_json(double number);

}  // namespace cfck::tools
