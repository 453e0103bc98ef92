#include "spectral/feedback/second_moments.hpp"

#include <algorithm>

namespace cfck::spectral {

std::vector<double> SecondMoments::diagonal(const Sides& sides) const {
  const std::vector<double> moments = transform_moments(values_, n_, sides);
  std::vector<double> diagonal(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    diagonal[i] = std::max(moments[i * n_ + i], 0.0);
  }
  return diagonal;
}

std::shared_ptr<const ErrorFeedback> SecondMoments::feedback(const Sides& sides,
                                                             const Order& order) const {
  return find(results_.lock()->known, sides, order, kKept, true);
}

std::vector<double> SecondMoments::weights(const Sides& sides, const Order& order) const {
  return find(results_.lock()->weights, sides, order, kWeightsKept, false)->weights;
}

std::shared_ptr<const ErrorFeedback> SecondMoments::find(std::vector<Known>& known,
                                                         const Sides& sides, const Order& order,
                                                         std::size_t most,
                                                         bool has_coefficients) const {
  for (const Known& one : known) {
    if (one.sides == sides && one.order == order) {
      return one.feedback;
    }
  }
  const std::vector<double> moments = transform_moments(values_, n_, sides);
  ErrorFeedback feedback = feed_errors(moments, order);
  if (!has_coefficients) {
    feedback.coefficients = {};
  }
  if (known.size() == most) {
    known.erase(known.begin());
  }
  known.push_back({sides, order, std::make_shared<const ErrorFeedback>(std::move(feedback))});
  return known.back().feedback;
}

}  // namespace cfck::spectral
