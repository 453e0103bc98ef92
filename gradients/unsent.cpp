// What is left of values that were sent with a loss.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "base/run_guarded.hpp"
#include "cfck/gradients.hpp"

namespace cfck {

Result<void> keep_unsent(std::span<const std::uint32_t> indices, std::span<const float> values,
                         std::span<const float> decoded, std::span<float> momentum,
                         std::span<float> velocity) {
  return detail::run_guarded([&]() -> Result<void> {
    if (values.size() != indices.size() || decoded.size() != indices.size() ||
        (!momentum.empty() && momentum.size() != velocity.size())) {
      return invalid_argument(
          "indices, values and decoded values, or momentum and velocity, have different lengths");
    }
    std::uint32_t largest = 0;
    for (const std::uint32_t index : indices) {
      largest = std::max(largest, index);
    }
    if (!indices.empty() && largest >= velocity.size()) {
      return invalid_argument("index " + std::to_string(largest) + " is not below the " +
                              std::to_string(velocity.size()) + " values of the tensor");
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const float left = values[i] - decoded[i];
      velocity[indices[i]] = std::isfinite(left) ? left : 0.0F;
    }
    if (!momentum.empty()) {
      for (const std::uint32_t index : indices) {
        momentum[index] = 0.0F;
      }
    }
    return {};
  });
}

}  // namespace cfck
