#include "spectral/feedback/field.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "spectral/feedback/step_learning.hpp"

namespace cfck::spectral {
namespace {

inline constexpr int kRounds = 2;

}  // namespace

std::optional<StepField> feedback_steps(const SpectralGeometry& geometry,
                                        const SecondMoments::Sides& sides,
                                        const std::vector<double>& squares,
                                        const SecondMoments& moments) {
  const std::vector<double> diagonal = moments.diagonal(sides);
  std::vector<double> weights = diagonal;
  std::vector<std::uint32_t> order(diagonal.size());
  for (int round = 0; round < kRounds; ++round) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return weights[a] * squares[a] < weights[b] * squares[b];
    });
    const std::vector<double> in_order = moments.weights(sides, order);
    if (in_order.empty()) {
      return std::nullopt;
    }
    for (std::size_t k = 0; k < order.size(); ++k) {
      weights[order[k]] = in_order[k];
    }
  }
  const double mean =
      std::accumulate(diagonal.begin(), diagonal.end(), 0.0) / static_cast<double>(diagonal.size());
  SeparableSteps found = steps_of_weights(weights, geometry.kernel_size(), mean);
  StepField steps;
  steps.columns = std::move(found.columns);
  steps.bands.resize(found.bands.size());
  for (std::size_t position = 0; position < found.bands.size(); ++position) {
    steps.bands[geometry.band_of_position()[position]] = found.bands[position];
  }
  return steps;
}

}  // namespace cfck::spectral
