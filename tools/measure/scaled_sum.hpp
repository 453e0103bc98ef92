// Sums of doubles that neither overflow nor underflow, whatever their size.
#pragma once

#include <cstdint>
#include <span>

namespace cfck::tools {

// A sum, kept as a number and a power of two. Terms are added in the order of the
// calls, so that equal values give equal sums.
class ScaledSum {
 public:
  void add(double sum, int exponent);  // sum * 2^exponent
  void add(const ScaledSum& other);
  void add_values(std::span<const double> values);
  // Adds products. Requires: spans of equal size. The same span twice adds squares.
  void add_products(std::span<const double> a, std::span<const double> b);

  bool is_zero() const { return mantissa_ == 0; }
  // The sum divided by `count`; infinite only if that is too large for a double.
  double mean(std::uint64_t count) const;
  // Returns the square root of the mean, times 2^exponent.
  double root_mean(std::uint64_t count, int exponent = 0) const;
  // Returns dot / sqrt(a * b), for sums that are not zero.
  static double cosine(const ScaledSum& dot, const ScaledSum& a, const ScaledSum& b);

 private:
  void add_normal(double part, int exponent);

  double mantissa_ = 0;  // at least 1/2 and below 1 in size, or 0
  int exponent_ = 0;
};

// Scales values to at most 1 in magnitude, by a power of two.
class Scale {
 public:
  explicit Scale(std::span<const double> values);
  explicit Scale(double largest);

  int exponent() const { return exponent_; }
  // value * 2^-exponent
  double operator()(double value) const { return value * half_ * rest_; }

 private:
  int exponent_;
  // The power is split in two factors, since 2^-1024 is not a normal double.
  double half_;
  double rest_;
};

}  // namespace cfck::tools
