#include "tools/spectrum/singular_values.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>

namespace cfck::tools {
namespace {

std::uint64_t rank_for(const std::vector<double>& values, double share, double energy) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * values[i];
    if (sum >= share * energy) return i + 1;
  }
  return values.size();
}

}  // namespace

Singular singular_values(const std::vector<double>& values, std::uint64_t rows,
                         std::uint64_t columns) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto n_rows = static_cast<Eigen::Index>(rows);
  const auto n_columns = static_cast<Eigen::Index>(columns);
  // Of a scaled matrix: squares must not overflow.
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  Singular result;
  const Eigen::Index side = std::min(n_rows, n_columns);
  result.values.assign(static_cast<std::size_t>(side), 0);
  if (largest == 0) return result;
  const Matrix matrix = Eigen::Map<const Matrix>(values.data(), n_rows, n_columns) / largest;
  Eigen::MatrixXd products = Eigen::MatrixXd::Zero(side, side);
  if (n_rows <= n_columns) {
    products.selfadjointView<Eigen::Lower>().rankUpdate(matrix);
  } else {
    products.selfadjointView<Eigen::Lower>().rankUpdate(matrix.transpose());
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(products, Eigen::EigenvaluesOnly);
  double energy = 0;
  double sum = 0;
  for (Eigen::Index i = 0; i < side; ++i) {
    const double value = std::sqrt(std::max(solver.eigenvalues()[side - 1 - i], 0.0));
    result.values[static_cast<std::size_t>(i)] = value;
    energy += value * value;
    sum += value;
  }
  if (energy == 0) return result;
  double entropy = 0;
  for (const double value : result.values) {
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  }
  result.effective_rank = std::exp(entropy);
  result.stable_rank = energy / (result.values[0] * result.values[0]);
  result.rank_90 = rank_for(result.values, 0.9, energy);
  result.rank_99 = rank_for(result.values, 0.99, energy);
  result.rank_999 = rank_for(result.values, 0.999, energy);
  for (double& value : result.values) value *= largest;
  return result;
}

}  // namespace cfck::tools
