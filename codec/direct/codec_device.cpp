// The direct codec tells a device of its records and chunks (codec/device_plan.hpp).
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "codec/common/groups.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/device_plan.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/codec.hpp"
#include "codec/direct/device/header.hpp"
#include "codec/direct/device/parameters.hpp"

namespace cfck::codec {
namespace {

// The vectors come one after another, each at a multiple of 8 bytes.
class DirectParametersForDevice final : public ParametersForDevice {
 public:
  DirectParametersForDevice(DirectParameters parameters, const DirectGeometry& geometry)
      : parameters_(std::move(parameters)), geometry_(geometry) {}

  const DirectParameters& parameters() const { return parameters_; }

  std::size_t n_bytes() const override {
    std::size_t n = 0;
    DeviceVectors unused;
    each_vector(unused, [&](const auto& vector, auto&) { n += padded_bytes(vector); });
    return n;
  }

  void store(std::byte* to) const override {
    DeviceVectors unused;
    each_vector(unused, [&](const auto& vector, auto&) {
      if (!vector.empty()) {
        std::memcpy(to, vector.data(), vector.size() * sizeof(vector[0]));
      }
      to += padded_bytes(vector);
    });
  }

  DeviceParameters at(const std::byte* vectors, std::uint64_t first_elem) const override {
    DeviceVectors places;
    each_vector(places, [&](const auto& vector, auto& place) {
      using Element = typename std::remove_cvref_t<decltype(vector)>::value_type;
      place = vector.empty() ? nullptr : reinterpret_cast<const Element*>(vectors);
      vectors += padded_bytes(vector);
    });
    return device_parameters(parameters_, geometry_, places, first_elem);
  }

 private:
  template <class Vector>
  static std::size_t padded_bytes(const Vector& vector) {
    return (vector.size() * sizeof(vector[0]) + 7) / 8 * 8;
  }

  // Calls `visit(vector, its place)` for all vectors in the order in which they are stored.
  template <class Visit>
  void each_vector(DeviceVectors& places, Visit&& visit) const {
    visit(parameters_.row_steps, places.row_steps);
    visit(parameters_.coefficients, places.coefficients);
    visit(parameters_.field.bands, places.bands);
    visit(parameters_.field.rows, places.rows);
    visit(parameters_.field.columns, places.columns);
  }

  DirectParameters parameters_;
  DirectGeometry geometry_;
};

device::Kernel kernel_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return device::Kernel::kDecodeDirectF64;
    case DType::kF32:
      return device::Kernel::kDecodeDirectF32;
    case DType::kBF16:
      return device::Kernel::kDecodeDirectBf16;
    default:
      return device::Kernel::kDecodeDirectF16;
  }
}

// Memory for indices: none where every value goes straight to its place.
std::uint64_t index_bytes(DType dtype, const DirectParameters& parameters, bool has_mask,
                          std::uint64_t n_groups, std::uint64_t n_values) {
  const bool is_moved = has_mask || !parameters.field.empty();
  const bool in_place = has_indices_in_place(bits_per_element(dtype) / 8);
  if (!is_moved) {
    return parameters.coefficients.empty() || in_place ? 0 : 4 * n_groups * kGroupSize;
  }
  return 4 * (n_groups * kGroupSize + (in_place ? 0 : n_values));
}

void plan_segments(const DirectHeader& direct, const DirectParameters& parameters,
                   const ChunkInfo& info, DevicePlan& plan) {
  DeviceSections sections(direct.header_bytes);
  DirectDeviceHeader header;
  header.flags = direct.flags;
  header.n_masked = direct.n_masked;
  header.mask = sections.next(direct.mask_bytes);
  header.tables = sections.next(direct.table_bytes);
  const bool has_mask = (direct.flags & kDirectMask) != 0;
  const SegmentedGroups groups(info.n_elems - direct.n_masked, direct.n_segments);
  plan.segments.resize(direct.n_segments);
  for (unsigned i = 0; i < direct.n_segments; ++i) {
    const DirectSegment& segment = direct.segments[i];
    header.first_bin = segment.first_bin;
    header.n_escapes = segment.n_escapes;
    header.n_exact = segment.n_exact;
    header.bin_escapes = sections.next(2 * std::uint64_t{segment.n_bin_escapes});
    header.escape_flags = sections.next((std::uint64_t{segment.n_escapes} + 7) / 8);
    header.escape_indices = sections.next(segment.code_bytes);
    header.exact = sections.next(std::uint64_t{segment.n_exact} * plan.value_bytes);
    header.coded = sections.next(segment.coded_bytes);
    header.raw = sections.next(segment.raw_bytes);
    const std::uint64_t n_groups = groups.end_group(i) - groups.first_group(i);
    const std::uint64_t n_values = has_mask ? info.n_elems : groups.n_values(i);
    SegmentPlan& to = plan.segments[i];
    to.header.store(header);
    to.first_value = static_cast<std::uint32_t>(groups.first_value(i));
    to.n_values = static_cast<std::uint32_t>(n_values);
    to.needs = {4 * n_groups, index_bytes(info.dtype, parameters, has_mask, n_groups, n_values),
                direct_escapes_bytes(segment.n_escapes, n_groups)};
  }
}

}  // namespace

std::shared_ptr<const ParametersForDevice> DirectDecoder::parameters_for_device(
    const ChunkInfo& info) const {
  const auto geometry = direct_geometry(info.shape);
  if (info.preamble.empty() || !geometry) {
    return nullptr;
  }
  auto parameters = parse_parameters(*geometry, info.preamble);
  if (!parameters) {
    return nullptr;
  }
  return std::make_shared<const DirectParametersForDevice>(std::move(*parameters), *geometry);
}

DevicePlan DirectDecoder::plan_for_device(
    const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
    const std::shared_ptr<const ParametersForDevice>& parameters) const {
  const auto* const of_record = static_cast<const DirectParametersForDevice*>(parameters.get());
  const DirectChunkInfo direct =
      direct_info(info, of_record == nullptr ? nullptr : &of_record->parameters());
  const auto geometry = check_direct_chunk(direct);
  // A preamble that was refused is the host's to complain of.
  if (!geometry || payload.empty() || (of_record == nullptr && !info.preamble.empty())) {
    return {};
  }
  if (is_lossless_payload(payload)) {
    return lossless_device_plan(lossless_info(direct), payload, payload_bytes);
  }
  DevicePlan plan;
  if (payload[0] > std::byte{kDirectPreamble} || info.entropy != EntropyId::kRans) {
    return plan;
  }
  auto header = parse_direct_header(direct, *geometry, payload);
  if (!header || header->body_bytes != payload_bytes) {
    return plan;
  }
  plan.parameters = parameters;
  if (header->parameters) {
    plan.parameters = std::make_shared<const DirectParametersForDevice>(
        std::move(*header->parameters), *geometry);
  }
  const auto& used =
      static_cast<const DirectParametersForDevice*>(plan.parameters.get())->parameters();
  // Tables of no bytes at all are the host's to refuse.
  if (header->n_segments > 1 && header->table_bytes == 0) {
    return plan;
  }
  plan.method = DecodeMethod::kKernel;
  plan.kernel = kernel_of(info.dtype);
  plan.value_bytes = bits_per_element(info.dtype) / 8;
  plan_segments(*header, used, info, plan);
  if ((header->flags & kDirectMask) != 0) {
    plan.mask_bytes = static_cast<std::uint32_t>((info.n_elems + 7) / 8);
    plan.mask_at = header->header_bytes;
    plan.mask_frame_bytes = header->mask_bytes == plan.mask_bytes ? 0 : header->mask_bytes;
  }
  return plan;
}

}  // namespace cfck::codec
