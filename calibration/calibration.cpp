#include "cfck/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/run_guarded.hpp"
#include "calibration/arrays.hpp"
#include "calibration/file.hpp"
#include "calibration/tensor_steps.hpp"
#include "spectral/feedback/second_moments.hpp"

namespace cfck {
namespace {

// With N inputs the correlation of two of n numbers has an error of about 1/sqrt(N), and there are
// n of them for each: they are shrunk so far that the sum of these errors stays small beside the
// rest.
void shrink(std::uint64_t n, std::uint64_t n_positions, std::vector<float>& moments) {
  if (n_positions == 0) {
    return;
  }
  const auto inputs = static_cast<double>(n_positions);
  const auto kept = static_cast<float>(inputs / (inputs + static_cast<double>(n)));
  for (std::uint64_t i = 0; i < n * n; ++i) {
    moments[i] *= i % (n + 1) == 0 ? 1.0f : kept;
  }
}

// The numbers of an array, to keep.
Result<std::vector<float>> copy_of(const calibration::Arrays& arrays, const std::string& name) {
  std::vector<float> buffer;
  CFCK_TRY_ASSIGN(const std::span<const float> numbers, arrays.floats(name, buffer));
  if (numbers.data() != buffer.data()) {
    buffer.assign(numbers.begin(), numbers.end());
  }
  return buffer;
}

}  // namespace

Result<std::shared_ptr<const Calibration>> Calibration::make(
    const Measurements& measured, std::shared_ptr<const calibration::Arrays> arrays) {
  if (measured.step && !(*measured.step > 0 && std::isfinite(*measured.step))) {
    return calibration::unsound("its step is not a positive number");
  }
  std::shared_ptr<Calibration> made(new Calibration);
  CFCK_TRY_ASSIGN(made->tensors_, calibration::tensor_steps(measured, *arrays));
  made->arrays_ = std::move(arrays);
  made->is_of_data_ = calibration::is_of_data(measured);
  made->has_tensor_steps_ =
      made->is_of_data_ || measured.source.find("random tokens") != std::string::npos;
  made->step_ = measured.step.value_or(0.0);
  return std::shared_ptr<const Calibration>(std::move(made));
}

Result<std::shared_ptr<const Calibration>> Calibration::open(
    std::unique_ptr<const ByteSource> source) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Calibration>> {
    CFCK_TRY_ASSIGN(Reader reader, Reader::open(std::move(source)));
    CFCK_TRY_ASSIGN(const Measurements measured, calibration::read_measurements(reader));
    return make(measured, calibration::arrays_of_file(std::move(reader)));
  });
}

Result<std::shared_ptr<const Calibration>> Calibration::open(const std::string& path) {
  CFCK_TRY_ASSIGN(std::unique_ptr<ByteSource> source, open_file(path));
  return open(std::move(source));
}

Result<std::shared_ptr<const Calibration>> Calibration::of(const Measurements& measured) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Calibration>> {
    CFCK_TRY_ASSIGN(auto arrays, calibration::arrays_in_memory(measured.tensors, measured.owner));
    return make(measured, std::move(arrays));
  });
}

bool Calibration::is_used_by(const EncodeOptions& options) const {
  const auto is_spectral = [](const auto& chosen) {
    const auto target = error_target(chosen);
    return chosen.codec == CodecChoice::kSpectral || chosen.quality || !target ||
           target->has_value();
  };
  return step_ > 0 || is_spectral(options) ||
         std::any_of(options.rules.begin(), options.rules.end(),
                     [&](const EncodeRule& rule) { return is_spectral(rule.options); });
}

Result<std::shared_ptr<const spectral::SecondMoments>> Calibration::second_moments(
    const CalibratedSteps& steps) const {
  return run_guarded([&]() -> Result<std::shared_ptr<const spectral::SecondMoments>> {
    CFCK_TRY_ASSIGN(std::vector<float> moments, copy_of(*arrays_, steps.second_moment));
    const std::uint64_t n = arrays_->find(steps.second_moment)->shape[1];
    if (moments.size() != n * n || !calibration::is_finite(moments)) {
      return calibration::unsound("a second moment has NaN or infinities", steps.second_moment);
    }
    shrink(n, steps.n_positions, moments);
    return std::make_shared<const spectral::SecondMoments>(std::move(moments), n);
  });
}

Result<std::shared_ptr<const std::vector<float>>> Calibration::corrected_values(
    const CalibratedSteps& steps) const {
  return run_guarded([&]() -> Result<std::shared_ptr<const std::vector<float>>> {
    CFCK_TRY_ASSIGN(std::vector<float> values, copy_of(*arrays_, steps.corrected));
    if (!calibration::is_finite(values)) {
      return calibration::unsound("corrected values have NaN or infinities", steps.corrected);
    }
    return std::make_shared<const std::vector<float>>(std::move(values));
  });
}

const CalibratedSteps* Calibration::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace cfck
