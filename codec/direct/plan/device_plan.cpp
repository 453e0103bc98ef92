#include "codec/direct/plan/device_plan.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/direct/device/encode_layout.hpp"
#include "codec/direct/device/parameters.hpp"
#include "codec/direct/plan/sample.hpp"

namespace cfck::codec {
namespace {

device::Kernel kernel_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return device::Kernel::kEncodeDirectF64;
    case DType::kBF16:
      return device::Kernel::kEncodeDirectBf16;
    case DType::kF16:
      return device::Kernel::kEncodeDirectF16;
    default:
      return device::Kernel::kEncodeDirectF32;
  }
}

// Bytes that comparing with the lossless codec takes.
std::size_t comparing_bytes(DType dtype, std::size_t n_values) {
  return kDirectResultRoom + lossless_device_bytes(dtype, n_values);
}

}  // namespace

std::optional<DeviceLossyEncodePlan> direct_device_plan(const DirectChunkPlace& chunk,
                                                        const DirectParameters& parameters,
                                                        const DirectBounds& bounds,
                                                        bool may_be_long) {
  const Result<DirectGeometry> geometry = direct_geometry(chunk.shape);
  if (!geometry) {
    return std::nullopt;
  }
  const std::size_t value_bytes = bits_per_element(chunk.dtype) / 8;
  DeviceLossyEncodePlan plan;
  plan.parameters = device_parameters(parameters, *geometry, {}, chunk.first_elem);
  plan.bound = bounds.bound;
  const std::uint64_t first = chunk.first_elem / geometry->row_values();
  const std::uint64_t end = ceil_div(chunk.first_elem + chunk.n_elems, geometry->row_values());
  plan.coefficients = parameters.coefficients;
  const ScaleField& field = parameters.field;
  if (!field.empty()) {
    plan.bands = field.bands;
    plan.rows = std::span(field.rows).subspan(first, end - first);
    plan.columns = field.columns;
  }
  if (!parameters.row_steps.empty()) {
    plan.row_steps = std::span(parameters.row_steps).subspan(first, end - first);
    plan.row_bounds = bounds.rows.subspan(first, end - first);
  }
  const DirectEncodeForm form{!parameters.coefficients.empty(), !field.empty()};
  plan.compares = may_be_long || chunk.n_elems * value_bytes <= kSmallChunkBytes;
  plan.chunk = {kernel_of(chunk.dtype), static_cast<std::uint32_t>(chunk.n_elems),
                direct_encode_layout(value_bytes, chunk.n_elems, form).n_bytes +
                    (plan.compares ? comparing_bytes(chunk.dtype, chunk.n_elems) : 0)};
  return plan;
}

std::optional<DeviceLossyRoom> direct_device_room(const LossyRecord& record) {
  const Result<DirectGeometry> geometry = direct_geometry(record.shape);
  if (!geometry || geometry->n_values() == 0) {
    return std::nullopt;
  }
  const std::uint64_t n_elems = std::min(record.chunk_elems, geometry->n_values());
  const std::size_t value_bytes = bits_per_element(record.dtype) / 8;
  DeviceLossyRoom room;
  room.kernel = kernel_of(record.dtype);
  const DirectEncodeForm form{geometry->kernel_size > 1, may_fit_field(*geometry, record.level)};
  room.memory_bytes = direct_encode_layout(value_bytes, n_elems, form).n_bytes +
                      comparing_bytes(record.dtype, n_elems);
  std::size_t n_entries = n_coefficients(geometry->kernel_size);
  std::size_t parameter_bytes = 1 + sizeof(double);
  if (record.bound.per_row || form.has_field) {
    room.n_rows = std::min(geometry->rows, n_elems / geometry->row_values() + 2);
  }
  if (record.bound.per_row) {
    parameter_bytes = 1 + geometry->rows * sizeof(std::uint16_t);
  }
  if (form.has_field) {
    n_entries += geometry->kernel_size + geometry->columns;
    parameter_bytes += geometry->rows * sizeof(std::int16_t);
  }
  room.n_shared_entries = n_entries;
  // A packed vector has a varint and a byte in front.
  parameter_bytes += n_entries * sizeof(std::int16_t) + 4 * 6;
  const bool has_preamble = n_elems < geometry->n_values();
  (has_preamble ? room.preamble_bytes : room.inline_bytes) = parameter_bytes;
  return room;
}

}  // namespace cfck::codec
