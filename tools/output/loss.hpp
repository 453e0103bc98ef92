// Errors of lossy tensors, summed up by kind of bound.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cfck/record.hpp"

namespace cfck::tools {

// Formats as "1e-04": the fewest digits that give the same number, or three where those are many.
std::string short_number(double number);
// Formats as "abs 1e-04"; "sigma 1e-02/row" where each row has its own; "none".
std::string bound_text(const ErrorBound& bound);
// Formats the request: the bound, the target or both. "nmse -20.00 dB", "3 b/w" where each tensor
// has its own; "file 3 b/w" for a target of the whole file.
std::string asked_text(const RecordError& error);
// Formats as "3 bits/weight", "nmse -20.00 dB (whole file)".
std::string long_target_text(const Target& target);
// Errors relative to the values, in dB; minus infinity without errors.
double nmse_decibels(const RecordError& error);  // Requires: quality
// Formats as "-20.03", "-inf".
std::string decibel_text(double decibels);

// Sums over the tensors of codec spectral.
class QualityTotals {
 public:
  void add(const RecordError& error, std::uint64_t n_elems, std::uint64_t stored_bytes);
  void add(const QualityTotals& other);
  bool any() const { return n_records_ > 0; }

  double nmse_decibels() const;
  double psnr_decibels() const;
  double bits_per_weight() const;

  // One line.
  std::string text() const;
  nlohmann::ordered_json json() const;

 private:
  std::uint64_t n_records_ = 0;
  double n_elems_ = 0;
  double stored_bytes_ = 0;
  double squared_errors_ = 0;
  double squares_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

class LossTotals {
 public:
  // An alias or a duplicate stores nothing; its values are included nevertheless.
  void add(const RecordError& error, std::uint64_t n_elems, std::uint64_t stored_bytes);
  void add(const LossTotals& other);
  bool any() const;

  // One line for each kind of bound, and one of quality, each after `indent`.
  std::string text(const std::string& indent) const;
  // {"abs": {"n_records", "max_abs_error"}, ...}: kinds that occur; with records of codec
  // spectral "quality".
  nlohmann::ordered_json json() const;

 private:
  struct OfKind {
    std::uint64_t n_records = 0;
    double max_abs_error = 0;
    double min_bound = 0;
    double max_bound = 0;
  };
  std::array<OfKind, 4> kinds_;  // in the order of BoundKind
  QualityTotals quality_;
};

}  // namespace cfck::tools
