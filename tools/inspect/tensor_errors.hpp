// How far the values of one tensor are from those of another.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>

#include "tools/inspect/tensor_set.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/measure/scaled_sum.hpp"

namespace cfck::tools {

class ErrorScan;  // in tensor_errors.cpp

// Over the values that are finite in both. NaN and infinities have no error:
// equal bits are equal, all else is counted. What both repeat (StoredTensor::repeats) is counted
// once, unless `check` wants it.
class TensorErrors {
 public:
  // Both read piece by piece; `check`, if there is one, gets the same values.
  // Requires: equal dtype and shape.
  static Result<TensorErrors> measure(const TensorSet& set, const StoredTensor& tensor,
                                      const TensorSet& reference_set, const StoredTensor& reference,
                                      BoundCheck* check = nullptr);
  // Adds the values of another tensor. Its relative error stays relative to its
  // own range.
  void add(const TensorErrors& other);

  std::uint64_t n_values() const { return n_values_; }
  // Values of which at least one is NaN or infinite, with different bits.
  std::uint64_t n_special_mismatches() const { return n_special_mismatches_; }
  double max_abs() const { return max_abs_; }
  // Of the range of the reference; infinite if that is 0 and the error is not.
  double max_rel() const { return max_rel_; }
  double rmse() const;
  // In dB, over the range of the reference; infinite without error.
  double psnr() const;
  // Squares of the errors over those of the reference, in dB; minus infinity without
  // error, infinite if only the reference is 0.
  double nmse() const;
  // 1 if both are 0 everywhere, 0 if one is.
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

// JSON knows no infinity and no NaN: these become strings.
nlohmann::ordered_json number_json(double number);

}  // namespace cfck::tools
