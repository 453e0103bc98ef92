// Models with a calibration, as cfck.calibrate and cfck.refine would write it.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cfck/calibration.hpp"
#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {

struct Measured {
  Named tensor;
  Shape moment_shape;  // empty: none was measured
  std::vector<float> moment;
  int input_axis = 1;
  std::vector<float> corrected = {};  // empty: there are none
};

inline double rms(const Bytes& bytes) {
  double squares = 0;
  const std::vector<float> values = values_of<float>(bytes);
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Second moments of inputs each of which resembles the one before.
inline std::vector<float> correlated(std::size_t n) {
  std::vector<float> moment(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double distance = std::abs(static_cast<double>(i) - static_cast<double>(j));
      moment[i * n + j] = static_cast<float>(std::pow(0.97, distance));
    }
  }
  return moment;
}

inline Measured measured(std::uint64_t seed, std::string name, Shape shape) {
  std::uint64_t n = 1;
  for (std::size_t axis = 1; axis < shape.size(); ++axis) n *= shape[axis];
  Named tensor{std::move(name), shape, bytes_from(bell(seed, shape[0] * n, 0.1))};
  return {std::move(tensor), {1, n, n}, correlated(n)};
}

inline std::string described(const Measured& one) {
  std::string shape;
  for (const std::uint64_t length : one.tensor.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(length);
  }
  return R"({"name": ")" + one.tensor.name + R"(", "shape": [)" + shape +
         R"(], "dtype": "F32", "input_axis": )" + std::to_string(one.input_axis) + "}";
}

inline Bytes calibration_file(const std::vector<Measured>& model,
                              const std::string& facts = R"({"source": "batches"})") {
  MemorySink sink;
  Writer writer = take(Writer::create(sink, {}));
  std::string tensors;
  std::vector<double> sigma;
  const std::vector<double> log2_step(model.size());
  for (const Measured& one : model) {
    tensors += (tensors.empty() ? "[" : ", ") + described(one);
    sigma.push_back(rms(one.tensor.bytes));
    if (!one.moment_shape.empty()) {
      expect_ok(writer.add(
          "second_moment/" + one.tensor.name,
          TensorView{DType::kF32, one.moment_shape, std::as_bytes(std::span(one.moment))}));
    }
    if (!one.corrected.empty()) {
      const auto bytes = std::as_bytes(std::span(one.corrected));
      expect_ok(writer.add("corrected/" + one.tensor.name,
                           TensorView{DType::kF32, one.tensor.shape, bytes}));
    }
  }
  const auto add = [&](const char* name, const std::vector<double>& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    expect_ok(writer.add(name, TensorView{DType::kF64, {numbers.size()}, bytes}));
  };
  add("sigma", sigma);
  add("log2_step", log2_step);
  expect_ok(writer.set_metadata("format", "cfck.calibration"));
  expect_ok(writer.set_metadata("version", "1"));
  expect_ok(writer.set_metadata("tensors", tensors + "]"));
  expect_ok(writer.set_metadata("calibration", facts));
  take(writer.finish());
  return sink.take();
}

inline Result<std::shared_ptr<const Calibration>> calibration_of(
    const std::vector<Measured>& model, const std::string& facts = R"({"source": "batches"})") {
  return Calibration::open(std::make_unique<OwnedMemorySource>(calibration_file(model, facts)));
}

inline EncodeOptions options_of(const std::vector<Measured>& model,
                                StepPreset steps = StepPreset::kFeedback, double bits = 3) {
  EncodeOptions options;
  options.steps = steps;
  options.bits_per_weight = bits;
  options.calibration = take(calibration_of(model));
  return options;
}

inline std::vector<Named> tensors_of(const std::vector<Measured>& model) {
  std::vector<Named> tensors;
  for (const Measured& one : model) tensors.push_back(one.tensor);
  return tensors;
}

inline std::vector<Measured> sample_model() {
  return {measured(1, "linear", {128, 96}), measured(2, "conv", {60, 12, 3, 3}),
          measured(3, "long", {300, 64})};
}

// Returns the effect of errors on the outputs of all tensors.
inline double output_error(const std::vector<Measured>& model, const Bytes& written) {
  const OpenFile file(written);
  double sum = 0;
  for (const Measured& one : model) {
    const std::vector<float> before = values_of<float>(one.tensor.bytes);
    const std::vector<float> after = values_of<float>(file.tensor(one.tensor.name));
    const auto n = static_cast<std::size_t>(one.moment_shape.back());
    for (std::size_t first = 0; first < before.size(); first += n) {
      for (std::size_t i = 0; i < n; ++i) {
        double inner = 0;
        for (std::size_t j = 0; j < n; ++j) {
          inner += double{one.moment[i * n + j]} * (double{after[first + j]} - before[first + j]);
        }
        sum += inner * (double{after[first + i]} - before[first + i]);
      }
    }
  }
  return sum;
}

// Writes the file with one thread, and checks that any number gives the same.
inline Bytes same_for_any_threads(const std::vector<Measured>& model, EncodeOptions options) {
  options.threads = 1;
  const Bytes once = write_all(tensors_of(model), options).file;
  EXPECT_EQ(write_all(tensors_of(model), options).file, once);
  for (const unsigned threads : {2u, 3u, 5u}) {
    options.threads = threads;
    EXPECT_EQ(write_all(tensors_of(model), options).file, once) << threads;
  }
  return once;
}

}  // namespace cfck::test
