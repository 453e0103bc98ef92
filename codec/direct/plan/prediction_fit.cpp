#include "codec/direct/plan/prediction_fit.hpp"

#include <algorithm>
#include <cmath>

#include "codec/common/bin_codes.hpp"

namespace cfck::codec {
namespace {

// Larger indices are clamped to this; so sums of 2^22 products fit 64 bits.
inline constexpr std::int32_t kMaxMomentIndex = 1 << 20;
inline constexpr std::uint64_t kMaxKernels = std::uint64_t{1} << 22;

// Limits to -100 to 100, also where the number overflowed or is NaN.
double limited(double coefficient) {
  constexpr double kMax = 100;
  return coefficient < kMax ? std::max(coefficient, -kMax) : kMax;
}

}  // namespace

PredictionFit::PredictionFit(std::uint32_t kernel_size)
    : kernel_size_(kernel_size), moments_(std::size_t{kernel_size} * kernel_size) {}

void PredictionFit::add(std::uint64_t first_value, std::span<const std::int32_t> indices) {
  std::int64_t kernel[kMaxKernelSize];
  std::size_t at =
      static_cast<std::size_t>((kernel_size_ - first_value % kernel_size_) % kernel_size_);
  for (; at + kernel_size_ <= indices.size() && n_kernels_ < kMaxKernels;
       at += kernel_size_, ++n_kernels_) {
    for (std::uint32_t t = 0; t < kernel_size_; ++t) {
      const std::int32_t index = indices[at + t];
      kernel[t] = index == kExact ? 0 : std::clamp(index, -kMaxMomentIndex, kMaxMomentIndex);
    }
    for (std::uint32_t s = 0; s < kernel_size_; ++s) {
      for (std::uint32_t t = s; t < kernel_size_; ++t) {
        moments_[std::size_t{s} * kernel_size_ + t] += kernel[s] * kernel[t];
      }
    }
  }
}

// True if predicting kernel position t with these coefficients leaves less energy.
bool PredictionFit::gains(std::uint32_t t, std::span<const std::int16_t> row) const {
  double change = 0;
  for (std::uint32_t s = 0; s < t; ++s) {
    const double a = row[s] / 256.0;
    change -= 2 * a * static_cast<double>(moment(s, t));
    for (std::uint32_t u = 0; u < t; ++u) {
      change += a * (row[u] / 256.0) * static_cast<double>(moment(std::min(s, u), std::max(s, u)));
    }
  }
  return change < 0;
}

std::vector<std::int16_t> PredictionFit::solve() const {
  // The moments are L D L^T with ones on the diagonal of L; row t of L says how position t depends
  // on those before it, and a back substitution gives its coefficients.
  std::vector<double> lower(moments_.size());
  std::vector<double> diagonal(kernel_size_);
  std::vector<std::int16_t> coefficients(n_coefficients(kernel_size_));
  bool any = false;
  std::size_t at = 0;
  for (std::uint32_t t = 0; t < kernel_size_; at += t, ++t) {
    double* const row = lower.data() + std::size_t{t} * kernel_size_;
    diagonal[t] = static_cast<double>(moment(t, t)) * (1 + 0x1p-20) + 1;
    for (std::uint32_t s = 0; s < t; ++s) {
      double sum = static_cast<double>(moment(s, t));
      for (std::uint32_t u = 0; u < s; ++u) {
        sum -= row[u] * diagonal[u] * lower[std::size_t{s} * kernel_size_ + u];
      }
      row[s] = sum / diagonal[s];
      diagonal[t] -= row[s] * row[s] * diagonal[s];
    }
    diagonal[t] = std::max(diagonal[t], 1.0);
    double solution[kMaxKernelSize];
    const std::span<std::int16_t> rounded(coefficients.data() + at, t);
    for (std::uint32_t s = t; s-- > 0;) {
      solution[s] = row[s];
      for (std::uint32_t u = s + 1; u < t; ++u) {
        solution[s] -= lower[std::size_t{u} * kernel_size_ + s] * solution[u];
      }
      rounded[s] = static_cast<std::int16_t>(std::floor(limited(solution[s]) * 256 + 0.5));
    }
    if (gains(t, rounded)) {
      any = true;
    } else {
      std::fill(rounded.begin(), rounded.end(), std::int16_t{0});
    }
  }
  return any ? coefficients : std::vector<std::int16_t>();
}

}  // namespace cfck::codec
