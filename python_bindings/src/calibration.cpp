#include "calibration.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments/paths.hpp"
#include "errors.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// Contiguous numbers of numpy; whoever has a copy keeps them alive.
using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

struct BoundTensor {
  MeasuredTensor measured;
  std::vector<Array> arrays;
};

// The library takes F32 only, and says so; of other arrays it is enough that they are none.
DType dtype_of(const Array& array) {
  if (array.dtype() == nb::dtype<float>()) return DType::kF32;
  return array.dtype() == nb::dtype<double>() ? DType::kF64 : DType::kU8;
}

TensorView view_of(const Array& array) {
  TensorView view;
  view.dtype = dtype_of(array);
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) view.shape.push_back(array.shape(axis));
  const std::size_t n_bytes = view.dtype == DType::kU8 ? array.size() : array.nbytes();
  view.data = {static_cast<const std::byte*>(array.data()), n_bytes};
  return view;
}

std::optional<TensorView> keep(const std::optional<Array>& array, std::vector<Array>& kept) {
  if (!array) return std::nullopt;
  kept.push_back(*array);
  return view_of(*array);
}

SharedCalibration of_tensors(std::string source, std::optional<double> step,
                             const std::vector<BoundTensor>& tensors) {
  Measurements measured{.source = std::move(source), .step = step};
  const auto owner = std::make_shared<std::vector<Array>>();
  for (const BoundTensor& tensor : tensors) {
    measured.tensors.push_back(tensor.measured);
    owner->insert(owner->end(), tensor.arrays.begin(), tensor.arrays.end());
  }
  measured.owner = owner;
  return {take(without_gil([&] { return Calibration::of(measured); }))};
}

SharedCalibration open_path(const nb::bytes& path_bytes) {
  const std::string path = path_of(path_bytes);
  return {take(without_gil([&] { return Calibration::open(path); }))};
}

}  // namespace

void bind_calibration(nb::module_& module) {
  nb::class_<BoundTensor>(module, "CalibratedTensor",
                          "The measurements of one tensor. Arrays are used where they are.")
      .def(
          "__init__",
          [](BoundTensor* self, std::string name, Shape shape, std::string tied_to, double sigma,
             double log2_step, const std::optional<Array>& second_moment, int input_axis,
             std::uint64_t n_positions, const std::optional<Array>& corrected) {
            BoundTensor tensor;
            tensor.measured = {.name = std::move(name),
                               .shape = std::move(shape),
                               .tied_to = std::move(tied_to),
                               .sigma = sigma,
                               .log2_step = log2_step,
                               .second_moment = keep(second_moment, tensor.arrays),
                               .input_axis = input_axis,
                               .n_positions = n_positions,
                               .corrected = keep(corrected, tensor.arrays)};
            new (self) BoundTensor(std::move(tensor));
          },
          nb::kw_only(), "name"_a, "shape"_a, "tied_to"_a, "sigma"_a, "log2_step"_a,
          "second_moment"_a.none(), "input_axis"_a, "n_positions"_a, "corrected"_a.none());
  nb::class_<SharedCalibration>(module, "Calibration", "A calibration for writers.")
      .def_static("of_tensors", &of_tensors, "source"_a, "step"_a.none(), "tensors"_a)
      .def_static("open_path", &open_path, "path"_a);
}

}  // namespace cfck::python
