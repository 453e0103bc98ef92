#include "cfck/training.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <new>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

using Exponents = std::vector<std::int32_t>;

// A step, and exponents of bands, rows and columns.
struct BoundSteps {
  double step;
  Exponents bands;
  Exponents rows;
  Exponents columns;

  TrainingSteps view() const { return {step, bands, rows, columns}; }
};

// Memory of a tensor that the caller keeps alive, complete and contiguous.
template <class T>
std::span<T> memory(std::uintptr_t address, std::uint64_t n) {
  return {reinterpret_cast<T*>(address), static_cast<std::size_t>(n)};
}

// Memory for gradients: one entry for each band, then each row, then each column.
TrainingStepGradients gradients_at(const WeightQuantiser& quantiser, std::uintptr_t address) {
  const auto bands = memory<float>(address, quantiser.n_bands());
  const auto rows = std::span(bands.data() + bands.size(), quantiser.n_rows());
  return {bands, rows, std::span(rows.data() + rows.size(), quantiser.n_columns())};
}

void quantise(const WeightQuantiser& self, std::uintptr_t weights, const BoundSteps& steps,
              std::uintptr_t values, unsigned threads) {
  const std::uint64_t n = self.n_values();
  take(without_gil([&] {
    return self.quantise(memory<const float>(weights, n), steps.view(), memory<float>(values, n),
                         threads);
  }));
}

void step_gradients(const WeightQuantiser& self, std::uintptr_t weights, const BoundSteps& steps,
                    std::uintptr_t value_gradients, float n_examples, std::uintptr_t gradients,
                    unsigned threads) {
  const std::uint64_t n = self.n_values();
  take(without_gil([&] {
    return self.step_gradients(memory<const float>(weights, n), steps.view(),
                               memory<const float>(value_gradients, n), n_examples,
                               gradients_at(self, gradients), threads);
  }));
}

std::tuple<std::uint32_t, std::uint64_t> fit_rate(const WeightQuantiser& self,
                                                  std::uintptr_t weights, const BoundSteps& steps,
                                                  std::uintptr_t bins) {
  const std::uint64_t n = self.n_values();
  const TrainingRate rate = take(without_gil([&] {
    return self.fit_rate(memory<const float>(weights, n), steps.view(),
                         memory<std::uint8_t>(bins, n));
  }));
  return {rate.family, rate.stored_bits};
}

double bits(const WeightQuantiser& self, std::uintptr_t weights, const BoundSteps& steps,
            std::uintptr_t bins, std::uint32_t family, unsigned threads) {
  const std::uint64_t n = self.n_values();
  return take(without_gil([&] {
    return self.bits(memory<const float>(weights, n), steps.view(),
                     memory<const std::uint8_t>(bins, n), family, threads);
  }));
}

void bit_gradients(const WeightQuantiser& self, std::uintptr_t weights, const BoundSteps& steps,
                   std::uintptr_t bins, std::uint32_t family, float scale,
                   std::uintptr_t weight_gradients, std::uintptr_t gradients, unsigned threads) {
  const std::uint64_t n = self.n_values();
  take(without_gil([&] {
    return self.bit_gradients(
        memory<const float>(weights, n), steps.view(), memory<const std::uint8_t>(bins, n), family,
        scale, memory<float>(weight_gradients, n), gradients_at(self, gradients), threads);
  }));
}

}  // namespace

void bind_training(nb::module_& module) {
  module.attr("TRAINING_STEPS_PER_OCTAVE") = kTrainingStepsPerOctave;
  nb::class_<BoundSteps>(module, "TrainingSteps",
                         "A step, and exponents in 256ths of an octave; an empty list: all 0.")
      .def(
          "__init__",
          [](BoundSteps* self, double step, Exponents bands, Exponents rows, Exponents columns) {
            new (self) BoundSteps{step, std::move(bands), std::move(rows), std::move(columns)};
          },
          "step"_a, "bands"_a, "rows"_a, "columns"_a);
  nb::class_<WeightQuantiser>(module, "WeightQuantiser",
                              "The quantiser of a tensor. Arguments are addresses of float32.")
      .def(
          "__init__",
          [](WeightQuantiser* self, Shape shape, std::vector<std::uint8_t> block) {
            new (self)
                WeightQuantiser(take(WeightQuantiser::create(std::move(shape), std::move(block))));
          },
          "shape"_a, "block"_a)
      .def_prop_ro("n_values", &WeightQuantiser::n_values)
      .def_prop_ro("n_rows", &WeightQuantiser::n_rows)
      .def_prop_ro("n_columns", &WeightQuantiser::n_columns)
      .def_prop_ro("n_bands", &WeightQuantiser::n_bands, "Number of ranges of bands.")
      .def_prop_ro("block", &WeightQuantiser::block)
      .def_prop_ro("range_of_band", &WeightQuantiser::range_of_band)
      .def("quantise", &quantise, "weights"_a, "steps"_a, "values"_a, "threads"_a,
           "Writes the values that a file decodes to.")
      .def("step_gradients", &step_gradients, "weights"_a, "steps"_a, "value_gradients"_a,
           "n_examples"_a, "gradients"_a, "threads"_a,
           "Writes derivatives by log2 of steps: of bands, then of rows, then of columns.")
      .def("fit_rate", &fit_rate, "weights"_a, "steps"_a, "bins"_a,
           "Writes a scale bin for each coefficient; returns a family of frequency tables, and the "
           "bits of the record.")
      .def("bits", &bits, "weights"_a, "steps"_a, "bins"_a, "family"_a, "threads"_a,
           "The bits of all coefficients.")
      .def("bit_gradients", &bit_gradients, "weights"_a, "steps"_a, "bins"_a, "family"_a, "scale"_a,
           "weight_gradients"_a, "gradients"_a, "threads"_a,
           "Writes derivatives of the bits, times scale.");
}

}  // namespace cfck::python
