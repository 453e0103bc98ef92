#include "calibration/tensor_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "spectral/feedback/step_learning.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::calibration {
namespace {

// The maximum of log2 steps; more cannot come from a measurement.
constexpr double kMaxOctaves = 40;

// Weights of the inputs of a tensor: the cost of an error by band and channel, summed over groups.
struct InputWeights {
  std::vector<std::uint32_t> sides;  // of the kernel; none: a matrix
  std::vector<double> weights;       // channel by channel, kernel positions within
  std::size_t n_bands = 1;
  bool is_whole = false;  // one matrix for all rows, with all channels and positions
};

void add_group(std::span<const float> moments, std::uint64_t group, bool is_full,
               InputWeights& found) {
  const std::size_t n = found.weights.size();
  if (!is_full) {
    for (std::size_t i = 0; i < n; ++i) {
      found.weights[i] += std::max(0.0, double{moments[group * n + i]});
    }
    return;
  }
  const std::span<const float> matrix(moments.data() + group * n * n, n * n);
  const std::vector<double> weights = spectral::kernel_weights(matrix, n, found.sides);
  for (std::size_t i = 0; i < n; ++i) {
    found.weights[i] += weights[i];
  }
}

std::vector<std::uint32_t> kernel_sides(const Shape& shape) {
  std::vector<std::uint32_t> sides;
  for (const std::uint8_t side : spectral::kernel_block(shape)) {
    sides.push_back(side);
  }
  return sides;
}

Result<InputWeights> input_weights(const MeasuredTensor& tensor, const Arrays& arrays) {
  InputWeights found;
  const std::string name = moment_name(tensor.name);
  const std::optional<ArrayShape> array = arrays.find(name);
  if (!array || tensor.shape.size() < 2) {
    return found;
  }
  const Shape& shape = array->shape;
  const bool is_full = shape.size() == 3 && shape[1] == shape[2];
  if (array->dtype != DType::kF32 || !(is_full || shape.size() == 2) ||
      std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
    return unsound("a second moment is not a matrix", name);
  }
  found.sides = kernel_sides(tensor.shape);
  for (const std::uint32_t side : found.sides) {
    found.n_bands *= side;
  }
  const std::uint64_t n = shape[1];
  if (n % found.n_bands != 0 || (found.n_bands > 1 && !is_full)) {
    found.sides.clear();
    found.n_bands = 1;
    return is_full ? unsound("a second moment does not fit its kernel", name)
                   : Result<InputWeights>(found);
  }
  std::vector<float> buffer;
  CFCK_TRY_ASSIGN(const std::span<const float> moments, arrays.floats(name, buffer));
  if (!is_finite(moments)) {
    return unsound("a second moment has NaN or infinities", name);
  }
  found.weights.assign(n, 0.0);
  found.is_whole = is_full && shape[0] == 1;
  for (std::uint64_t group = 0; group < shape[0]; ++group) {
    add_group(moments, group, is_full, found);
  }
  return found;
}

// Reorders from kernel positions to band numbers.
std::vector<std::int16_t> by_band(const std::vector<std::int16_t>& by_place,
                                  std::span<const std::uint32_t> sides) {
  const std::vector<std::uint32_t> bands = spectral::band_numbers(sides);
  std::vector<std::int16_t> steps(by_place.size());
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    steps[bands[place]] = by_place[place];
  }
  return steps;
}

void set_steps(const MeasuredTensor& tensor, const InputWeights& inputs, CalibratedSteps& steps) {
  if (inputs.weights.empty()) {
    return;
  }
  std::uint64_t row_values = 1;
  for (std::size_t axis = 1; axis < tensor.shape.size(); ++axis) {
    row_values *= tensor.shape[axis];
  }
  if (inputs.is_whole && tensor.input_axis == 1 && inputs.weights.size() == row_values) {
    steps.second_moment = moment_name(tensor.name);
    steps.n_positions = tensor.n_positions;
  }
  spectral::SeparableSteps found = spectral::steps_of_weights(inputs.weights, inputs.n_bands);
  const std::uint64_t axis_length = tensor.shape[static_cast<std::size_t>(tensor.input_axis)];
  if (found.columns.size() == axis_length) {
    (tensor.input_axis == 1 ? steps.columns : steps.rows) = std::move(found.columns);
  }
  if (inputs.n_bands > 1) {
    steps.bands = by_band(found.bands, inputs.sides);
  }
}

// Kernels of one size have these weights in common: the mean of theirs, each over its mean.
using KernelWeights = std::map<std::vector<std::uint32_t>, std::vector<double>>;

void add_kernel(const InputWeights& inputs, KernelWeights& kernels) {
  double sum = 0;
  for (const double weight : inputs.weights) {
    sum += weight;
  }
  if (inputs.n_bands < 2 || !(sum > 0)) {
    return;
  }
  std::vector<double>& common = kernels[inputs.sides];
  common.resize(inputs.n_bands);
  for (std::size_t i = 0; i < inputs.weights.size(); ++i) {
    common[i % inputs.n_bands] += inputs.weights[i] / sum;
  }
}

// With generated inputs, only the frequencies are like those of real ones.
void set_common_bands(const KernelWeights& kernels, StepsByName& tensors) {
  for (auto& [name, steps] : tensors) {
    const std::vector<std::uint32_t> sides = kernel_sides(steps.shape);
    const auto common = kernels.find(sides);
    if (common != kernels.end()) {
      const std::vector<double>& weights = common->second;
      steps.bands = by_band(spectral::steps_of_weights(weights, weights.size()).bands, sides);
    }
  }
}

// The numbers of one tensor alone.
Result<CalibratedSteps> steps_of(const MeasuredTensor& tensor, const Arrays& arrays) {
  CalibratedSteps steps;
  steps.shape = tensor.shape;
  steps.sigma = std::isfinite(tensor.sigma) ? tensor.sigma : 0;
  if (!(std::abs(tensor.log2_step) <= kMaxOctaves)) {
    return unsound("a step is not a number, or beyond 40 octaves", tensor.name);
  }
  steps.log2_step = tensor.log2_step;
  const std::string name = corrected_name(tensor.name);
  if (const std::optional<ArrayShape> corrected = arrays.find(name)) {
    if (corrected->dtype != DType::kF32 || corrected->shape != tensor.shape) {
      return unsound("corrected values are not F32 of the tensor's shape", name);
    }
    steps.corrected = name;
  }
  return steps;
}

}  // namespace

bool is_of_data(const Measurements& measured) { return measured.source == "batches"; }

Result<StepsByName> tensor_steps(const Measurements& measured, const Arrays& arrays) {
  StepsByName tensors;
  KernelWeights kernels;
  for (const MeasuredTensor& tensor : measured.tensors) {
    CFCK_TRY_ASSIGN(CalibratedSteps steps, steps_of(tensor, arrays));
    CFCK_TRY_ASSIGN(const InputWeights inputs, input_weights(tensor, arrays));
    if (is_of_data(measured)) {
      set_steps(tensor, inputs, steps);
    } else {
      add_kernel(inputs, kernels);
    }
    tensors[tensor.name] = std::move(steps);
  }
  set_common_bands(kernels, tensors);
  for (const MeasuredTensor& tensor : measured.tensors) {
    if (const auto base = tensors.find(tensor.tied_to); base != tensors.end()) {
      tensors[tensor.name] = base->second;
    }
  }
  return tensors;
}

}  // namespace cfck::calibration
