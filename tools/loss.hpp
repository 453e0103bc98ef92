// What lossy tensors lost, summed up by kind of bound.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cfck/record.hpp"

namespace cfck::tools {

// "1e-04": the shortest digits that mean the same, or three where those are many.
std::string short_number(double number);
// "abs 1e-04"; "sigma 1e-02/row" where each row has its own.
std::string bound_text(const ErrorBound& bound);

class LossTotals {
 public:
  void add(const RecordError& error);
  void add(const LossTotals& other);
  bool any() const;

  // One line for each kind of bound, each after `indent`.
  std::string text(const std::string& indent) const;
  // {"abs": {"n_records", "max_abs_error"}, ...}: kinds that occur.
  nlohmann::ordered_json json() const;

 private:
  struct OfKind {
    std::uint64_t n_records = 0;
    double max_abs_error = 0;
    double least_bound = 0;
    double greatest_bound = 0;
  };
  std::array<OfKind, 3> kinds_;  // in the order of BoundKind
};

}  // namespace cfck::tools
