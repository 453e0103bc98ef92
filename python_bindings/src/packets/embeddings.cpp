// Packets of rows. Rows come as addresses; the package keeps their owners alive.
#include "cfck/embeddings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "python_bindings/src/errors.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// dtype, n_rows, row_elems, address, max_abs_error, address of the keys or 0.
using GivenRows =
    std::tuple<std::string, std::uint32_t, std::uint32_t, std::uintptr_t, double, std::uintptr_t>;
// Address, n_bytes, address of the keys or 0, number of keys.
using RoomForRows = std::tuple<std::uintptr_t, std::uint64_t, std::uintptr_t, std::uint64_t>;
// dtype, n_rows, row_elems, n_unique, needs_keys.
using ShapeOfRows = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, bool>;

// Each thread has its own, which lives as long as the thread.
RowWorkspace& row_workspace() {
  thread_local RowWorkspace memory;
  return memory;
}

template <class T>
std::span<T> items_at(std::uintptr_t address, std::uint64_t n) {
  return {reinterpret_cast<T*>(address), address == 0 ? 0 : n};
}

std::vector<RowBatch> batches_of(const std::vector<GivenRows>& given) {
  std::vector<RowBatch> batches;
  for (const auto& [name, n_rows, row_elems, address, error, keys] : given) {
    const auto dtype = dtype_from_name(name);
    if (!dtype) throw nb::type_error("rows have dtype F32, F16 or BF16");
    const std::uint64_t n_bytes =
        std::uint64_t{n_rows} * row_elems * (bits_per_element(*dtype) / 8);
    batches.push_back({*dtype, n_rows, row_elems, items_at<const std::byte>(address, n_bytes),
                       error, items_at<const std::int64_t>(keys, n_rows)});
  }
  return batches;
}

std::uint64_t most_bytes_of_rows(const std::vector<GivenRows>& given) {
  return take(max_row_packet_bytes(batches_of(given)));
}

std::uint64_t encode_row_packet(const std::vector<GivenRows>& given, double bytes_per_second,
                                std::uintptr_t out, std::uint64_t out_bytes) {
  const std::vector<RowBatch> batches = batches_of(given);
  RowPacketOptions options;
  options.bytes_per_second = bytes_per_second;
  return take(without_gil([&] {
    return encode_rows(batches, options, items_at<std::byte>(out, out_bytes), row_workspace());
  }));
}

std::vector<ShapeOfRows> shapes_of_rows(std::uintptr_t address, std::uint64_t n_bytes) {
  std::vector<ShapeOfRows> found;
  for (const RowShape& shape :
       take(row_packet_shapes(items_at<const std::byte>(address, n_bytes)))) {
    found.emplace_back(std::string(dtype_name(shape.dtype)), shape.n_rows, shape.row_elems,
                       shape.n_unique, shape.needs_keys);
  }
  return found;
}

void decode_row_packet(std::uintptr_t address, std::uint64_t n_bytes,
                       const std::vector<RoomForRows>& rooms) {
  std::vector<DecodedRows> batches;
  for (const auto& [values, room_bytes, keys, n_keys] : rooms) {
    batches.push_back(
        {items_at<std::byte>(values, room_bytes), items_at<const std::int64_t>(keys, n_keys)});
  }
  take(without_gil([&] {
    return decode_rows(items_at<const std::byte>(address, n_bytes), batches, row_workspace());
  }));
}

}  // namespace

void bind_embeddings(nb::module_& module) {
  module.def("max_row_packet_bytes", &most_bytes_of_rows, "batches"_a,
             "The most bytes of a packet: (dtype, n_rows, row_elems, address, max_abs_error, "
             "address of keys or 0) each.");
  module.def("encode_rows", &encode_row_packet, "batches"_a, "bytes_per_second"_a, "out"_a,
             "out_bytes"_a, "Encodes batches into memory; returns the length of the packet.");
  module.def("row_packet_shapes", &shapes_of_rows, "address"_a, "n_bytes"_a,
             "(dtype, n_rows, row_elems, n_unique, needs_keys) of each batch, unverified.");
  module.def("decode_rows", &decode_row_packet, "address"_a, "n_bytes"_a, "batches"_a,
             "Verifies a packet and decodes it: (address, n_bytes, address of keys or 0, n_keys) "
             "each.");
}

}  // namespace cfck::python
