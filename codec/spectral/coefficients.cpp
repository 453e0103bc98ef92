#include "codec/spectral/coefficients.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/direct/class_codes.hpp"
#include "codec/direct/float_values.hpp"
#include "codec/spectral/coefficient_fields.hpp"
#include "spectral/dct.hpp"

namespace cfck::codec {
namespace {

template <class Value, class Action>
void each_value(ByteView values, Action&& action) {
  typename Value::Word word;
  for (std::size_t i = 0; i < values.size() / sizeof(word); ++i) {
    std::memcpy(&word, values.data() + i * sizeof(word), sizeof(word));
    const bool is_finite = magnitude_of<Value>(word) < Value::kInfinity;
    action(i, is_finite ? Value::to_double(word) : 0.0);
  }
}

template <class Action>
void each_value(DType dtype, ByteView values, Action&& action) {
  switch (dtype) {
    case DType::kF64:
      return each_value<ValueF64>(values, action);
    case DType::kF32:
      return each_value<ValueF32>(values, action);
    case DType::kBF16:
      return each_value<ValueBf16>(values, action);
    default:
      return each_value<ValueF16>(values, action);
  }
}

// A larger sum of magnitudes would not fit class_of_mean().
inline constexpr float kMostSteps = 0x1p30f;

}  // namespace

Result<void> coefficients_in_steps(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
                                   const SpectralParameters& parameters, ByteView values,
                                   std::span<float> in_steps) {
  std::vector<double> coefficients(in_steps.size());
  each_value(info.dtype, values, [&](std::size_t i, double value) { coefficients[i] = value; });
  if (parameters.transforms) {
    CFCK_TRY_ASSIGN(const SpectralGeometry::Region region,
                    geometry.region_of(info.first_elem, info.n_elems));
    spectral::forward_dct(coefficients.data(), region.shape, region.sides);
  }
  std::vector<double> steps(in_steps.size());
  coefficient_steps(geometry, parameters, info.first_elem, in_steps.size(), steps.data());
  for (std::size_t i = 0; i < in_steps.size(); ++i) {
    const auto in_step = static_cast<float>(coefficients[i] / steps[i]);
    in_steps[i] = in_step == in_step ? std::clamp(in_step, -kMostSteps, kMostSteps) : 0.0f;
  }
  return {};
}

GroupCode group_of(std::span<const float> in_steps, unsigned n_states) {
  // Codes of a quantiser are two steps apart, if there are two.
  const float codes_of_step = n_states == 1 ? 16.0f : 8.0f;
  std::uint64_t sum = 0;  // of codes, in sixteenths
  float most = 0;
  for (const float value : in_steps) {
    const float magnitude = std::fabs(value);
    most = std::max(most, magnitude);
    sum += static_cast<std::uint64_t>(std::min(magnitude * codes_of_step, 0x1p31f) + 0.5f);
  }
  if (most <= (n_states == 1 ? 0.5f : 1.0f)) {
    return {0, 0, GroupKind::kAllZero};
  }
  const unsigned scale_class = class_of_mean(sum, 16 * in_steps.size());
  return {static_cast<std::uint16_t>(std::min(scale_class, kMaxSpectralClass)), 0,
          GroupKind::kValues};
}

}  // namespace cfck::codec
