// Packets of gradients. Tensors come as addresses; the package keeps their owners alive.
#include "cfck/gradients.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <tuple>
#include <vector>

#include "python_bindings/src/errors.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// n_elems, addresses of indices and values, n_values.
using Sparse = std::tuple<std::uint32_t, std::uintptr_t, std::uintptr_t, std::uint64_t>;
// Address, n_elems.
using Dense = std::tuple<std::uintptr_t, std::uint64_t>;

// Each thread has its own, which lives as long as the thread.
GradientWorkspace& gradient_workspace() {
  thread_local GradientWorkspace memory;
  return memory;
}

template <class T>
std::span<T> span_at(std::uintptr_t address, std::uint64_t n) {
  return {reinterpret_cast<T*>(address), n};
}

std::vector<SparseTensor> tensors_of(const std::vector<Sparse>& tensors) {
  std::vector<SparseTensor> made;
  for (const auto& [n_elems, indices, values, n_values] : tensors) {
    made.push_back({n_elems, span_at<const std::uint32_t>(indices, n_values),
                    span_at<const float>(values, n_values)});
  }
  return made;
}

std::uint64_t most_packet_bytes(const std::vector<Sparse>& tensors) {
  return take(max_gradient_packet_bytes(tensors_of(tensors)));
}

std::uint64_t encode_packet(const std::vector<Sparse>& given, double value_error,
                            std::uintptr_t out, std::uint64_t out_bytes, std::uintptr_t decoded,
                            std::uint64_t n_values) {
  const std::vector<SparseTensor> tensors = tensors_of(given);
  GradientPacketOptions options;
  options.value_error = value_error;
  return take(without_gil([&] {
    return encode_gradients(tensors, options, span_at<std::byte>(out, out_bytes),
                            span_at<float>(decoded, n_values), gradient_workspace());
  }));
}

std::vector<std::tuple<std::uint32_t, std::uint32_t>> packet_shapes(std::uintptr_t address,
                                                                    std::uint64_t n_bytes) {
  std::vector<std::tuple<std::uint32_t, std::uint32_t>> found;
  for (const SparseShape& shape :
       take(gradient_packet_shapes(span_at<const std::byte>(address, n_bytes)))) {
    found.emplace_back(shape.n_elems, shape.n_values);
  }
  return found;
}

void decode_packet(std::uintptr_t address, std::uint64_t n_bytes, std::uintptr_t indices,
                   std::uintptr_t values, std::uint64_t n_values) {
  take(without_gil([&] {
    return decode_gradients(span_at<const std::byte>(address, n_bytes),
                            span_at<std::uint32_t>(indices, n_values),
                            span_at<float>(values, n_values), gradient_workspace());
  }));
}

void add_packet(std::uintptr_t address, std::uint64_t n_bytes, float weight,
                const std::vector<Dense>& given) {
  std::vector<std::span<float>> tensors;
  for (const auto& [at, n_elems] : given) {
    tensors.push_back(span_at<float>(at, n_elems));
  }
  take(without_gil([&] {
    return add_gradients(span_at<const std::byte>(address, n_bytes), weight, tensors,
                         gradient_workspace());
  }));
}

void select_indices(std::uintptr_t values, std::uint64_t n_values, std::uintptr_t indices,
                    std::uint64_t n_wanted) {
  take(without_gil([&] {
    return select_largest(span_at<const float>(values, n_values),
                          span_at<std::uint32_t>(indices, n_wanted), gradient_workspace());
  }));
}

void accumulate_indices(std::uintptr_t gradient, std::uintptr_t momentum, std::uintptr_t velocity,
                        std::uint64_t n_values, float factor, bool nesterov, std::uintptr_t indices,
                        std::uintptr_t values, std::uint64_t n_wanted) {
  take(without_gil([&] {
    return accumulate_and_select(span_at<const float>(gradient, n_values),
                                 span_at<float>(momentum, momentum == 0 ? 0 : n_values),
                                 span_at<float>(velocity, n_values), {factor, nesterov},
                                 span_at<std::uint32_t>(indices, n_wanted),
                                 span_at<float>(values, n_wanted), gradient_workspace());
  }));
}

void keep_unsent_values(std::uintptr_t indices, std::uintptr_t values, std::uintptr_t decoded,
                        std::uint64_t n_sent, std::uintptr_t momentum, std::uintptr_t velocity,
                        std::uint64_t n_values) {
  take(without_gil([&] {
    return keep_unsent(span_at<const std::uint32_t>(indices, n_sent),
                       span_at<const float>(values, n_sent), span_at<const float>(decoded, n_sent),
                       span_at<float>(momentum, momentum == 0 ? 0 : n_values),
                       span_at<float>(velocity, n_values));
  }));
}

}  // namespace

void bind_gradients(nb::module_& module) {
  module.def(
      "max_gradient_packet_bytes", &most_packet_bytes, "tensors"_a,
      "The most bytes of a packet: (n_elems, address of indices, of values, n_values) each.");
  module.def("encode_gradients", &encode_packet, "tensors"_a, "value_error"_a, "out"_a,
             "out_bytes"_a, "decoded"_a, "n_values"_a,
             "Encodes tensors into memory; returns the length of the packet.");
  module.def("gradient_packet_shapes", &packet_shapes, "address"_a, "n_bytes"_a,
             "(n_elems, n_values) of each tensor of a packet, unverified.");
  module.def("decode_gradients", &decode_packet, "address"_a, "n_bytes"_a, "indices"_a, "values"_a,
             "n_values"_a, "Verifies a packet and decodes it into memory.");
  module.def("add_gradients", &add_packet, "address"_a, "n_bytes"_a, "weight"_a, "tensors"_a,
             "Verifies a packet and adds it to tensors: (address, n_elems) each.");
  module.def("select_largest", &select_indices, "values"_a, "n_values"_a, "indices"_a, "n_wanted"_a,
             "Finds the indices of the largest magnitudes.");
  module.def("accumulate_and_select", &accumulate_indices, "gradient"_a, "momentum"_a, "velocity"_a,
             "n_values"_a, "factor"_a, "nesterov"_a, "indices"_a, "values"_a, "n_wanted"_a,
             "Momentum correction, accumulation, and the same; address 0: no momentum. Puts the "
             "values beside their indices.");
  module.def("keep_unsent", &keep_unsent_values, "indices"_a, "values"_a, "decoded"_a, "n_sent"_a,
             "momentum"_a, "velocity"_a, "n_values"_a,
             "Leaves in velocity what was lost of values that were sent, and zeros in momentum; "
             "address 0: no momentum.");
}

}  // namespace cfck::python
