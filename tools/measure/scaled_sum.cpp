#include "tools/measure/scaled_sum.hpp"

#include <algorithm>
#include <cmath>

namespace cfck::tools {
namespace {

// Above this, 2^-exponent is a double.
constexpr int kMinExponent = -1000;

double largest_size(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

int exponent_of(double largest) {
  int exponent = 0;
  (void)std::frexp(largest, &exponent);
  return std::max(exponent, kMinExponent);
}

}  // namespace

Scale::Scale(double largest)
    : exponent_(exponent_of(largest)),
      half_(std::ldexp(1.0, -(exponent_ / 2))),
      rest_(std::ldexp(1.0, -(exponent_ - exponent_ / 2))) {}

Scale::Scale(std::span<const double> values) : Scale(largest_size(values)) {}

void ScaledSum::add(double sum, int exponent) {
  if (sum == 0) return;
  int shift = 0;
  const double part = std::frexp(sum, &shift);
  add_normal(part, exponent + shift);
}

void ScaledSum::add(const ScaledSum& other) {
  if (!other.is_zero()) add_normal(other.mantissa_, other.exponent_);
}

void ScaledSum::add_values(std::span<const double> values) {
  const Scale scale(values);
  double total = 0;
  for (const double value : values) total += scale(value);
  add(total, scale.exponent());
}

void ScaledSum::add_products(std::span<const double> a, std::span<const double> b) {
  const Scale scale_a(a);
  const Scale scale_b(b);
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += scale_a(a[i]) * scale_b(b[i]);
  add(total, scale_a.exponent() + scale_b.exponent());
}

void ScaledSum::add_normal(double part, int exponent) {
  const int top = is_zero() ? exponent : std::max(exponent, exponent_);
  const double sum = std::ldexp(mantissa_, exponent_ - top) + std::ldexp(part, exponent - top);
  int shift = 0;
  mantissa_ = std::frexp(sum, &shift);
  exponent_ = sum == 0 ? 0 : top + shift;
}

double ScaledSum::mean(std::uint64_t count) const {
  return std::ldexp(mantissa_ / static_cast<double>(count), exponent_);
}

double ScaledSum::root_mean(std::uint64_t count, int exponent) const {
  const int odd = exponent_ & 1;
  const double mean = std::ldexp(mantissa_ / static_cast<double>(count), odd);
  return std::ldexp(std::sqrt(mean), (exponent_ - odd) / 2 + exponent);
}

double ScaledSum::cosine(const ScaledSum& dot, const ScaledSum& a, const ScaledSum& b) {
  const int exponent = a.exponent_ + b.exponent_;
  const int odd = exponent & 1;
  const double norm = std::sqrt(std::ldexp(a.mantissa_ * b.mantissa_, odd));
  return std::ldexp(dot.mantissa_ / norm, dot.exponent_ - (exponent - odd) / 2);
}

}  // namespace cfck::tools
